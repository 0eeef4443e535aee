#include "flagstone/algorithms/nuclear/number_lines.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "flagstone/base/error.hpp"

namespace flagstone::nuclear {

NumberLines::NumberLines(const std::string& text, std::string name, std::string kind)
    : text_(text), name_(std::move(name)), kind_(std::move(kind)) {}

bool NumberLines::read(std::string& line) {
  while (std::getline(text_, line)) {
    ++number_;
    line.erase(std::min(line.find_first_of("!#"), line.size()));
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    return true;
  }
  line.clear();
  return false;
}

std::string NumberLines::word() {
  std::string line;
  read(line);
  return line;
}

bool NumberLines::more() {
  const auto at = text_.tellg();
  const int number = number_;
  std::string line;
  const bool found = read(line);
  text_.clear(), text_.seekg(at), number_ = number;
  return found;
}

std::vector<double> NumberLines::next(std::size_t least, const std::string& what) {
  std::string line;
  if (read(line)) {
    std::istringstream words(line);
    std::vector<double> numbers;
    for (double value; words >> value;) numbers.push_back(value);
    if (words.eof() && numbers.size() >= least) {
      for (const double value : numbers)
        if (!std::isfinite(value)) throw FormatError(where() + ": a value is not finite.");
      return numbers;
    }
  }
  throw FormatError(where() + ": " + what + " of " + std::to_string(least) +
                    " numbers is needed; the file is damaged or no " + kind_ + ".");
}

std::vector<double> NumberLines::gather(std::size_t least, const std::string& what) {
  std::vector<double> numbers;
  while (numbers.size() < least) {
    const auto line = next(1, what);
    numbers.insert(numbers.end(), line.begin(), line.end());
  }
  return numbers;
}

int NumberLines::whole(double value, const char* what, int least, int most) const {
  if (value != std::floor(value) || value < least || value > most) {
    std::ostringstream text;
    text << where() << ": " << what << " is " << value << "; a whole number from " << least << " to " << most
         << " is needed.";
    throw FormatError(text.str());
  }
  return static_cast<int>(value);
}

}  // namespace flagstone::nuclear
