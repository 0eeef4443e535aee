#pragma once
// Files of interactions: lines of numbers with comments, and sentences that name the line where one is wrong.
#include <sstream>
#include <string>
#include <vector>

namespace flagstone::nuclear {

/// Lines with numbers, without comments ('!' and '#').
class NumberLines {
 public:
  NumberLines(const std::string& text, std::string name, std::string kind);

  std::string where() const { return "nuclear.Interaction: '" + name_ + "', line " + std::to_string(number_); }
  /// At least so many numbers of the next line; FormatError names it else.
  std::vector<double> next(std::size_t least, const std::string& what);
  /// So many numbers at least, of as many lines as hold them.
  std::vector<double> gather(std::size_t least, const std::string& what);
  /// The next line as it stands, without comments and blanks around it; "" behind the last one.
  std::string word();
  /// Whether a line with anything but comments is left.
  bool more();
  /// A number of the last line that must be whole, and lie in a range.
  int whole(double value, const char* what, int least, int most) const;

 private:
  bool read(std::string& line);

  std::istringstream text_;
  std::string name_, kind_;
  int number_ = 0;
};

}  // namespace flagstone::nuclear
