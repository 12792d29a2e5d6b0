// A plot as an SVG element: axes with ticks and units, lines, dots or stacked areas.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shoal::report {

struct Point {
  double x = 0, y = 0;
};

struct Series {
  enum class Kind { line, dots, area };  // areas are stacked in their order, and share their x
  std::string label;
  std::size_t color = 0;  // of the palette, taken round and round
  std::vector<Point> points;
  Kind kind = Kind::line;
  bool dashed = false;
};

struct Plot {
  std::string title, x_axis, y_axis;  // axes with their unit: "memory of rank 0 (GiB)"
  std::vector<Series> series;
  bool from_zero = true;  // the y axis begins at 0
};

// "#0072b2"; eight colours that colour-blind people can tell apart (Okabe and Ito 2008), the darker ones first.
std::string color(std::size_t index);
// A figure of HTML with title, SVG and legend. Points that are not finite are left out; of many, those that are lowest
// and highest in each stretch are drawn.
std::string figure(const Plot& plot);
// &, <, >, " and ' as HTML wants them.
std::string escaped(const std::string& text);

}  // namespace shoal::report
