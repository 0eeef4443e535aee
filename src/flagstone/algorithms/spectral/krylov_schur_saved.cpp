// What of a solve is saved, and how another process goes on: the basis itself is the checkpoint.
#include <algorithm>
#include <filesystem>

#include "flagstone/algorithms/spectral/krylov_schur.hpp"
#include "flagstone/base/error.hpp"

namespace flagstone::spectral {

/// All that an application starts from, beside the basis.
void BlockKrylovSchur::list_parts(StateParts& parts) {
  basis_.list_parts(parts);
  if (o_.hold_basis) {
    Array held = basis_.array();
    parts.array("basis", held);
    if (parts.loading()) basis_ = basis_.in(held);
  }
  parts.value("generation", generation_);
  parts.value("applications", applications_);
  parts.value("phase", phase_);
  parts.value("locked", locked_);
  parts.values("locked values", locked_values_);
  parts.values("locked residuals", locked_residuals_);
  h_.list_parts(parts, "projected");
  coupling_.list_parts(parts, "coupling");
  parts.value("width", width_);
  parts.value("norm", norm_);
  block_.list_parts(parts);
  units_.list_parts(parts);
}

std::string BlockKrylovSchur::name_of_basis(int generation) const { return "basis" + std::to_string(generation); }

/// Of this generation, in a file beside the checkpoint where there is one; a basis in memory is a part of the state.
Array BlockKrylovSchur::new_array(bool anew) {
  const Shape shape = PanelBasis::shape(cut_), tile = PanelBasis::tile(cut_);
  if (o_.hold_basis) return graph_.allocate(shape, o_.dtype);
  if (!stages_.saving()) return graph_.temporary(shape, o_.dtype, tile);
  return stages_.array_between(name_of_basis(generation_), shape, o_.dtype, tile, {}, anew);
}

/// The array of this generation, and which of its tiles are finished.
Array BlockKrylovSchur::open_array(bool anew) {
  Array array = new_array(anew);
  note_tiles(array);
  return array;
}

void BlockKrylovSchur::note_tiles(const Array& array) {
  tiles_.reset();
  if (o_.hold_basis) return;
  tiles_ = std::make_unique<FinishedTiles>(stages_, array, PanelBasis::tile(cut_), name_of_basis(generation_));
}

/// The next slot is finished and belongs to the basis.
void BlockKrylovSchur::push(Index width) {
  if (tiles_) tiles_->finish({{0, basis_.slots() * cut_.block}, {cut_.n, cut_.block}});
  basis_.push(width);
}

/// Where a checkpoint is due: then what came before this basis is needed by nobody.
void BlockKrylovSchur::save() {
  if (!stages_.saving()) return;
  if (o_.hold_basis) graph_.barrier();  // what is saved is read where it lies
  stages_.offer(std::min(0.95, static_cast<double>(applications_) / (schur_steps(o_, cut_.n) + look_steps + 1)));
  if (!tiles_ || tiles_->unnoted() || saved_ == generation_) return;
  if (saved_ >= 0) remove_basis(saved_);
  saved_ = generation_;
}

void BlockKrylovSchur::remove_basis(int generation) const {
  std::error_code ignored;  // it is in the folder of the record, which goes as a whole
  std::filesystem::remove(o_.kept_in + "/" + name_of_basis(generation), ignored);
}

/// What a dead process had: the basis is read where it lies.
void BlockKrylovSchur::go_on() {
  saved_ = generation_;
  if (!o_.hold_basis) basis_ = basis_.in(open_array(false));
  if (tiles_ && !tiles_->holds({{0, 0}, {cut_.n, basis_.slots() * cut_.block}}))
    throw FormatError(o_.who +
                      ": the basis that was saved beside the record is gone; remove the record to start again.");
  next_ = width_;
  block_.load(basis_, basis_.slots() - 1);
}

}  // namespace flagstone::spectral
