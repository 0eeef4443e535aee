#pragma once
// Files of interactions: KSHELL's .snt (Interaction::read_snt), and BIGSTICK's isospin form.
#include <string>

#include "flagstone/algorithms/nuclear/interaction.hpp"

namespace flagstone::nuclear {

/// Elements V_JT of an `.int` file, orbits of its `.sps` ("iso"). FormatError names the line. Like nucleons have T = 1;
/// a proton in a and a neutron in b are sqrt((1 + δab) / 2) (|ab; J0> + |ab; J1>). Source: C. W. Johnson et al.,
/// arXiv:1801.08432, section 4.
Interaction read_isospin(const std::string& text, const std::string& name, const std::string& orbits_text,
                         const std::string& orbits_name);

}  // namespace flagstone::nuclear
