#include "train/rate_facts.h"

#include <array>
#include <string_view>

namespace shoal::train {
namespace {

struct Peak {
  std::string_view device;    // part of the name that CUDA tells; the first that fits counts
  double sixteen_bits, fp32;  // TFLOP/s, dense, of the makers' data sheets
};
constexpr std::array kPeaks{
    Peak{"B200", 2250, 75},     Peak{"GH200", 989, 67},    Peak{"H200 NVL", 836, 60}, Peak{"H200", 989, 67},
    Peak{"H100 PCIe", 756, 51}, Peak{"H100 NVL", 835, 60}, Peak{"H100", 989, 67},     Peak{"A100", 312, 19.5},
    Peak{"A40", 149.7, 37.4},   Peak{"A30", 165, 10.3},    Peak{"L40S", 362, 91.6},   Peak{"L40", 181, 90.5},
    Peak{"L4", 121, 30.3},      Peak{"V100", 125, 15.7},
};

}  // namespace

double flops_a_sample(const models::ModelOptions& shape, std::int64_t parameters, std::int64_t tokens) {
  if (shape.layers <= 0 || shape.hidden_size <= 0 || tokens <= 0) return 0;
  const std::int64_t looked_up = (shape.untied_head ? shape.vocab_size : 0) * shape.hidden_size +
                                 (shape.rope_theta > 0 ? 0 : shape.max_positions) * shape.hidden_size;
  const auto matrices = static_cast<double>(parameters - looked_up);
  const auto attention = static_cast<double>(shape.layers * shape.hidden_size * tokens);
  return (6 * matrices + 12 * attention) * static_cast<double>(tokens);
}

double peak_flops(const std::string& device, bool sixteen_bits) {
  constexpr double kTera = 1e12;
  for (const Peak& peak : kPeaks)
    if (device.find(peak.device) != std::string::npos) return kTera * (sixteen_bits ? peak.sixteen_bits : peak.fp32);
  return 0;
}

}  // namespace shoal::train
