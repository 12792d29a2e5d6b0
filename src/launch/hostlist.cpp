#include "launch/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "core/check.h"
#include "launch/text_fault.h"

namespace shoal::launch {
namespace {

constexpr std::size_t kMaxDigits = 18;  // fits into 64 bits

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_separator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool may_be_in_name(char c) {
  return c > ' ' && c <= '~' && std::string_view("[](),").find(c) == std::string_view::npos;
}

std::string padded(std::uint64_t number, std::size_t width) { return fmt::format("{:0{}}", number, width); }

// A place in a text, and the way to say what is wrong there.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  std::size_t place() const { return at_; }
  void step() { ++at_; }
  bool take(char wanted) {
    if (at_end() || peek() != wanted) return false;
    step();
    return true;
  }
  [[noreturn]] void fail(const std::string& reason) const { throw_fault(text_, at_, reason); }
  [[noreturn]] void fail_at(std::size_t at, const std::string& reason) const { throw_fault(text_, at, reason); }

  std::string_view digits() {
    const std::size_t start = at_;
    while (is_digit(peek())) step();
    if (at_ == start) fail("a number is expected here");
    if (at_ - start > kMaxDigits) fail_at(start, fmt::format("a number of more than {} digits", kMaxDigits));
    return text_.substr(start, at_ - start);
  }

  std::string name_part() {
    const std::size_t start = at_;
    while (!at_end() && may_be_in_name(peek())) step();
    return std::string(text_.substr(start, at_ - start));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

using Numbers = std::vector<std::string>;  // of one bracket, padded

void read_range(Reader& in, Numbers& numbers) {
  const std::size_t start = in.place();
  const std::string_view low = in.digits();
  const std::string_view high = in.take('-') ? in.digits() : low;
  const std::uint64_t first = number_of(low), last = number_of(high);
  if (in.peek() == 'x') in.fail("boxes of a cluster with several dimensions are not supported");
  if (first > last) in.fail_at(start, fmt::format("the range {}-{} runs backwards", low, high));
  if (last - first >= kMaxHosts - std::min(numbers.size(), kMaxHosts))
    in.fail_at(start, fmt::format("more than {} hosts", kMaxHosts));
  for (std::uint64_t number = first; number <= last; ++number) numbers.push_back(padded(number, low.size()));
}

Numbers read_bracket(Reader& in) {
  const std::size_t start = in.place();
  Numbers numbers;
  in.step();
  do {
    read_range(in, numbers);
  } while (in.take(','));
  if (in.at_end()) in.fail_at(start, "this '[' is never closed");
  if (!in.take(']')) in.fail("',', '-' or ']' is expected here");
  return numbers;
}

struct Item {
  std::vector<std::string> texts;  // one more than there are brackets, around them
  std::vector<Numbers> brackets;
};

// `so_far` hosts stand before it. The limit is looked at after each bracket: a short text may ask for a lot of memory.
Item read_item(Reader& in, std::size_t so_far) {
  const std::size_t start = in.place();
  Item item{.texts = {in.name_part()}, .brackets = {}};
  std::size_t hosts = 1, length = item.texts[0].size();
  while (in.peek() == '[') {
    item.brackets.push_back(read_bracket(in));
    item.texts.push_back(in.name_part());
    hosts *= item.brackets.back().size();  // each factor is at most 2^18
    length += std::ranges::max_element(item.brackets.back(), {}, &std::string::size)->size();
    length += item.texts.back().size();
    if (hosts > kMaxHosts) break;
  }
  if (hosts > kMaxHosts - so_far) in.fail_at(start, fmt::format("more than {} hosts", kMaxHosts));
  if (!in.at_end() && !is_separator(in.peek())) in.fail("no name of a host has this character");
  if (length > kMaxHostName) in.fail_at(start, fmt::format("a name of more than {} characters", kMaxHostName));
  return item;
}

// Which bracket changes how fast: the slowest first.
std::vector<std::size_t> order_of(std::size_t brackets) {
  std::vector<std::size_t> order;
  for (std::size_t i = brackets; i-- > 1;) order.push_back(i - 1);
  if (brackets > 0) order.push_back(brackets - 1);
  return order;
}

std::string name_of(const Item& item, const std::vector<std::size_t>& chosen) {
  std::string name = item.texts[0];
  for (std::size_t i = 0; i < item.brackets.size(); ++i) name += item.brackets[i][chosen[i]] + item.texts[i + 1];
  return name;
}

// The next combination, as an odometer; false after the last.
bool advance(const Item& item, const std::vector<std::size_t>& order, std::vector<std::size_t>& chosen) {
  for (std::size_t i = order.size(); i-- > 0;) {
    if (++chosen[order[i]] < item.brackets[order[i]].size()) return true;
    chosen[order[i]] = 0;
  }
  return false;
}

struct Numbered {
  std::string_view prefix, digits;  // digits: none, or at most kMaxDigits at the end of the name
};

Numbered split_number(std::string_view name) {
  std::size_t start = name.size();
  while (start > 0 && name.size() - start < kMaxDigits && is_digit(name[start - 1])) --start;
  return {name.substr(0, start), name.substr(start)};
}

// Whether the range that begins with `low` and has `length` members goes on with `next`.
bool goes_on(std::string_view low, std::uint64_t length, std::string_view next) {
  return padded(number_of(low) + length, low.size()) == next;
}

// "08,10-12" for the digits of neighbours in the list.
std::string ranges_of(const std::vector<std::string_view>& digits) {
  std::string text;
  for (std::size_t i = 0; i < digits.size();) {
    std::size_t end = i + 1;
    while (end < digits.size() && goes_on(digits[i], end - i, digits[end])) ++end;
    text += text.empty() ? "" : ",";
    text += digits[i];
    if (end - i > 1) text += fmt::format("-{}", digits[end - 1]);
    i = end;
  }
  return text;
}

void check_name(const std::string& name) {
  SHOAL_CHECK(!name.empty() && name.size() <= kMaxHostName && std::ranges::all_of(name, may_be_in_name), OptionError,
              "{} is no name of a host", quoted(name));
}

int read_count(Reader& in) {
  const std::size_t start = in.place();
  const std::uint64_t number = number_of(in.digits());
  if (number > INT32_MAX) in.fail_at(start, "the number is too large");
  return static_cast<int>(number);
}

std::size_t read_repetition(Reader& in) {
  if (!in.take('(')) return 1;
  if (!in.take('x')) in.fail("'x' is expected here, as in '4(x2)'");
  const std::size_t start = in.place();
  const std::uint64_t times = number_of(in.digits());
  if (times == 0) in.fail_at(start, "repeated 0 times");
  if (times > kMaxHosts) in.fail_at(start, fmt::format("more than {} numbers", kMaxHosts));
  if (!in.take(')')) in.fail("')' is expected here");
  return static_cast<std::size_t>(times);
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text) {
  std::vector<std::string> hosts;
  Reader in(text);
  for (;;) {
    while (!in.at_end() && is_separator(in.peek())) in.step();
    if (in.at_end()) return hosts;
    const Item item = read_item(in, hosts.size());
    const std::vector<std::size_t> order = order_of(item.brackets.size());
    std::vector<std::size_t> chosen(order.size());
    do {
      hosts.push_back(name_of(item, chosen));
    } while (advance(item, order, chosen));
  }
}

std::string compress_hostlist(const std::vector<std::string>& hosts) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size();) {
    check_name(hosts[i]);
    const Numbered first = split_number(hosts[i]);
    std::vector<std::string_view> digits{first.digits};
    while (!first.digits.empty() && i + digits.size() < hosts.size()) {
      const Numbered next = split_number(hosts[i + digits.size()]);
      if (next.prefix != first.prefix || next.digits.empty()) break;
      digits.push_back(next.digits);
    }
    text += text.empty() ? "" : ",";
    text += digits.size() == 1 ? hosts[i] : fmt::format("{}[{}]", first.prefix, ranges_of(digits));
    i += digits.size();
  }
  return text;
}

std::vector<int> expand_counts(std::string_view text) {
  std::vector<int> counts;
  Reader in(text);
  do {
    const std::size_t start = in.place();
    const int count = read_count(in);
    const std::size_t times = read_repetition(in);
    if (times > kMaxHosts - counts.size()) in.fail_at(start, fmt::format("more than {} numbers", kMaxHosts));
    counts.insert(counts.end(), times, count);
  } while (in.take(','));
  if (!in.at_end()) in.fail("',' or '(x' is expected here");
  return counts;
}

}  // namespace shoal::launch
