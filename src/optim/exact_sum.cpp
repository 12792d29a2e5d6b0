#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "optim/reductions.h"

namespace shoal::optim {
namespace {

constexpr int kInfinities = ExactSumOfSquares::kDigits, kNans = kInfinities + 1;
constexpr int kDigitBits = 32;
constexpr std::int64_t kDigitMask = (std::int64_t{1} << kDigitBits) - 1;
constexpr int kFractionBits = 52;
constexpr int kLeastExponent = -1074;  // bit 0 of digit 0 counts 2^-1074, double's least
constexpr int kSpecialExponent = 0x7FF;

// An addition puts less than 2^32 into a digit, which holds less than that after a carry: so many of them fit.
constexpr std::int64_t kAdditionsBetweenCarries = std::int64_t{1} << 30;

// `square` is not negative. Its 53 bits, moved to their place in the digits, touch three of them.
inline void add_square(std::int64_t* limbs, double square) {
  const auto bits = std::bit_cast<std::uint64_t>(square);
  const int exponent = static_cast<int>(bits >> kFractionBits) & kSpecialExponent;
  if (exponent == kSpecialExponent) [[unlikely]] {
    ++limbs[std::isnan(square) ? kNans : kInfinities];
    return;
  }
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << kFractionBits) - 1);
  const std::uint64_t mantissa = fraction | (std::uint64_t{exponent != 0} << kFractionBits);
  const int place = std::max(exponent, 1) - 1;  // of the mantissa's last bit; subnormal numbers have exponent 1 as well
  const int shift = place % kDigitBits;
  std::int64_t* const digit = limbs + place / kDigitBits;
  const std::uint64_t low = mantissa << shift;
  digit[0] += static_cast<std::int64_t>(low) & kDigitMask;
  digit[1] += static_cast<std::int64_t>(low >> kDigitBits);
  digit[2] += static_cast<std::int64_t>((mantissa >> 1) >> (63 - shift));  // a shift by 64 would be undefined
}

template <typename T>
void add_all(std::int64_t* limbs, const T* data, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) add_square(limbs, double(data[i]) * double(data[i]));
}

void carry(std::span<std::int64_t> limbs) {
  std::int64_t over = 0;
  for (std::int64_t& digit : limbs.first(ExactSumOfSquares::kDigits)) {
    digit += over;
    over = digit >> kDigitBits;
    digit &= kDigitMask;
  }
  SHOAL_ASSERT(over == 0);
}

// Digits with their carries done, as a number of which single bits and runs of bits are asked.
class Digits {
 public:
  explicit Digits(std::span<const std::int64_t> digits) : digits_(digits) {}

  // One past the highest bit that is set.
  int width() const {
    for (int d = static_cast<int>(digits_.size()); d-- > 0;)
      if (digits_[d] != 0) return d * kDigitBits + std::bit_width(static_cast<std::uint64_t>(digits_[d]));
    return 0;
  }
  bool bit(int place) const { return (digits_[place / kDigitBits] >> (place % kDigitBits)) & 1; }
  bool any_below(int place) const {
    for (int p = 0; p < place; ++p)
      if (bit(p)) return true;
    return false;
  }
  std::uint64_t bits(int first, int count) const {
    std::uint64_t value = 0;
    for (int place = first + count; place-- > first;) value = 2 * value + bit(place);
    return value;
  }

 private:
  std::span<const std::int64_t> digits_;
};

double rounded(const Digits& number) {
  const int width = number.width();
  constexpr int kPrecision = kFractionBits + 1;
  const int dropped = std::max(0, width - kPrecision);
  std::uint64_t mantissa = number.bits(dropped, width - dropped);
  if (dropped > 0 && number.bit(dropped - 1) && (mantissa % 2 == 1 || number.any_below(dropped - 1))) ++mantissa;
  return std::ldexp(static_cast<double>(mantissa), dropped + kLeastExponent);
}

}  // namespace

void ExactSumOfSquares::add(const void* data, DType dtype, std::int64_t count) {
  SHOAL_ASSERT(dtype == DType::float32 || dtype == DType::float64);
  for (std::int64_t begin = 0; begin < count; begin += kAdditionsBetweenCarries) {
    const std::int64_t n = std::min(kAdditionsBetweenCarries, count - begin);
    carry(limbs_);
    if (dtype == DType::float32)
      add_all(limbs_.data(), static_cast<const float*>(data) + begin, n);
    else
      add_all(limbs_.data(), static_cast<const double*>(data) + begin, n);
  }
}

void ExactSumOfSquares::add(ExactSumOfSquares& other) {
  const std::span<std::int64_t, kLimbs> mine = limbs(), theirs = other.limbs();
  for (std::size_t l = 0; l < mine.size(); ++l) mine[l] += theirs[l];
}

std::span<std::int64_t, ExactSumOfSquares::kLimbs> ExactSumOfSquares::limbs() {
  carry(limbs_);
  return limbs_;
}

double ExactSumOfSquares::value() const {
  if (limbs_[kNans] > 0) return std::numeric_limits<double>::quiet_NaN();
  if (limbs_[kInfinities] > 0) return std::numeric_limits<double>::infinity();
  std::array<std::int64_t, kLimbs> limbs = limbs_;
  carry(limbs);
  return rounded(Digits(std::span<const std::int64_t>(limbs).first(kDigits)));
}

}  // namespace shoal::optim
