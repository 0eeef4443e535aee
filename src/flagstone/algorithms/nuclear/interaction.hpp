#pragma once
// Two-body interactions, coupled to J: what a file lists, or a random ensemble.
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "flagstone/algorithms/nuclear/coupling.hpp"

namespace flagstone::nuclear {

enum class Kind : std::uint8_t { protons, neutrons, mixed };  // of a pair; mixed: the proton first

/// Energies of single nucleons and V_J(ab, cd), by quantum numbers of orbits. Every one is a scalar: it commutes with
/// J² whatever its numbers are.
class Interaction {
 public:
  /// KSHELL's snt: proton-neutron form. FormatError names the line.
  static Interaction read_snt(const std::string& text, const std::string& name);
  /// Normal numbers of mean 0 and variance 1, each a function of the seed, the orbits and J: no table. No energies of
  /// single nucleons.
  static Interaction random(std::uint64_t seed);

  /// Orbits that the file lists; none of a random one, which has elements for all.
  const std::vector<Orbit>& orbits(bool neutrons) const { return neutrons ? neutron_orbits_ : proton_orbits_; }
  bool is_random() const { return random_; }
  /// Closed shells below: nucleons that the file counts and the space does not.
  int core() const { return core_; }
  std::size_t elements() const { return couplings_.size(); }
  /// What two-body elements are multiplied with in a nucleus of so many nucleons.
  double scale(int nucleons) const;
  /// Two-body elements times ((core + nucleons) / mass)^power from now on. FormatError(where) for what cannot be.
  void set_scaling(int core, double mass, double power, const std::string& where);
  // What a file says:
  void add_orbit(bool neutrons, const Orbit& orbit) { (neutrons ? neutron_orbits_ : proton_orbits_).push_back(orbit); }
  void set_energy(bool neutrons, const Orbit& a, const Orbit& b, double value) {
    energies_[energy_key(neutrons, a, b)] = value;
  }
  /// V_J(ab, cd) of four orbits. FormatError(where): it breaks J or parity, or was given before with another value.
  void enter(Kind kind, const Orbit* orbits, int J, double value, const std::string& where);

  double one_body(bool neutrons, const Orbit& a, const Orbit& b) const;
  /// V_J(ab, cd) of the J that momenta() lists, unscaled; zero where the file has none.
  void two_body(Kind kind, const Orbit& a, const Orbit& b, const Orbit& c, const Orbit& d,
                std::vector<double>& to) const;
  /// ShapeError names an orbit of the space that the file does not have.
  void check_spans(const Space& space) const;

 private:
  struct Key {
    std::uint64_t orbits = 0;  // 16 bits each
    std::uint32_t kind_and_j = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return (key.orbits * 0x9E3779B97F4A7C15u) ^ key.kind_and_j; }
  };
  double drawn(const Key& key) const;
  static std::uint64_t energy_key(bool neutrons, const Orbit& a, const Orbit& b);
  static Key key_of(Kind kind, const Orbit& a, const Orbit& b, const Orbit& c, const Orbit& d, int two_J, double& sign);

  bool random_ = false;
  std::uint64_t seed_ = 0;
  int core_ = 0;
  double mass_ = 0, power_ = 0;
  std::vector<Orbit> proton_orbits_, neutron_orbits_;
  std::map<std::uint64_t, double> energies_;
  std::unordered_map<Key, double, Hash> couplings_;
};

}  // namespace flagstone::nuclear
