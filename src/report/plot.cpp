#include "report/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "report/axis.h"

namespace shoal::report {
namespace {

// Of the picture, in its own units, which are about pixels of a phone.
constexpr double kWidth = 440, kHeight = 270, kLeft = 70, kRight = 14, kTop = 10, kBottom = 46;
constexpr std::size_t kMostPoints = 800;
constexpr std::array kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#b8a800"};

using Points = std::vector<Point>;

Points finite(const Points& points) {
  Points kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept),
               [](Point p) { return std::isfinite(p.x) && std::isfinite(p.y); });
  return kept;
}

// The lowest and the highest of every stretch, in their order, so that no spike is lost.
Points thinned(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points kept;
  constexpr std::size_t kStretches = kMostPoints / 2;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / kStretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / kStretches);
    auto [low, high] = std::minmax_element(begin, end, [](Point a, Point b) { return a.y < b.y; });
    if (low > high) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  return kept;
}

// Each of many, the same ones for series that are stacked.
Points every_nth(const Points& points) {
  const std::size_t n = (points.size() + kMostPoints - 1) / kMostPoints;
  Points kept;
  for (std::size_t i = 0; i < points.size(); i += std::max<std::size_t>(n, 1)) kept.push_back(points[i]);
  return kept;
}

struct Layer {
  Series series;
  Points floor;  // of an area: the top of the one below it
};

std::vector<Layer> layers_of(const Plot& plot) {
  std::vector<Layer> layers;
  Points top;
  for (const Series& series : plot.series) {
    Layer layer{series, {}};
    if (series.kind != Series::Kind::area) {
      layer.series.points = thinned(finite(series.points));
    } else {
      layer.series.points = every_nth(series.points);
      layer.floor = top;
      for (std::size_t i = 0; i < top.size(); ++i) layer.series.points[i].y += top[i].y;
      top = layer.series.points;
      if (layer.floor.empty())
        for (const Point& point : top) layer.floor.push_back({point.x, 0});
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

struct Bounds {
  double left = std::numeric_limits<double>::infinity(), right = -left, low = left, high = -left;
};

Bounds bounds_of(const std::vector<Layer>& layers, bool from_zero) {
  Bounds b;
  for (const Layer& layer : layers)
    for (const Point& p : layer.series.points) {
      b.left = std::min(b.left, p.x), b.right = std::max(b.right, p.x);
      b.low = std::min(b.low, p.y), b.high = std::max(b.high, p.y);
    }
  if (from_zero) b.low = std::min(b.low, 0.0);
  return b;
}

std::string path_of(const Points& points, const Axis& x, const Axis& y) {
  std::string path;
  for (const Point& p : points)
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x.pixel(p.x), y.pixel(p.y));
  return path;
}

std::string axes(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  const double bottom = kHeight - kBottom;
  for (const double tick : y.ticks())
    svg += fmt::format("<path class=grid d='M{} {:.1f}H{}'/><text x={} y={:.1f} class=end dy=.35em>{}</text>\n", kLeft,
                       y.pixel(tick), kWidth - kRight, kLeft - 5, y.pixel(tick), y.text(tick));
  for (const double tick : x.ticks())
    svg += fmt::format("<path class=tick d='M{:.1f} {}v4'/><text x={:.1f} y={} class=middle>{}</text>\n", x.pixel(tick),
                       bottom, x.pixel(tick), bottom + 19, x.text(tick));
  svg += fmt::format("<path class=axis d='M{} {}V{}H{}'/>\n", kLeft, kTop, bottom, kWidth - kRight);
  svg += fmt::format("<text x={} y={} class='middle name'>{}</text>\n", (kLeft + kWidth - kRight) / 2, kHeight - 6,
                     escaped(plot.x_axis));
  svg += fmt::format("<text transform='translate(13 {}) rotate(-90)' class='middle name'>{}</text>\n",
                     (kTop + bottom) / 2, escaped(plot.y_axis));
  return svg;
}

std::string drawing(const Layer& layer, const Axis& x, const Axis& y) {
  const Series& series = layer.series;
  if (series.points.empty()) return "";
  const std::string paint = color(series.color), label = escaped(series.label);
  if (series.kind == Series::Kind::dots || series.points.size() == 1) {
    std::string dots = fmt::format("<g fill='{}' data-label=\"{}\">", paint, label);
    for (const Point& p : series.points)
      dots += fmt::format("<circle r=3 cx={:.1f} cy={:.1f} />", x.pixel(p.x), y.pixel(p.y));
    return dots + "</g>\n";
  }
  if (series.kind == Series::Kind::area) {
    Points outline = layer.floor;
    std::reverse(outline.begin(), outline.end());
    outline.insert(outline.begin(), series.points.begin(), series.points.end());
    return fmt::format("<polygon fill='{}' fill-opacity=.75 points='{}'/>\n", paint, path_of(outline, x, y));
  }
  return fmt::format("<polyline stroke='{}'{} points='{}' data-label=\"{}\"/>\n", paint,
                     series.dashed ? " stroke-dasharray='5 3'" : "", path_of(series.points, x, y), label);
}

std::string legend(const Plot& plot) {
  std::string items;
  for (const Series& series : plot.series)
    items += fmt::format("<span><i class='{}' style='--c:{}'></i>{}</span>",
                         series.kind == Series::Kind::dots ? "dot"
                         : series.dashed                   ? "dash"
                                                           : "",
                         color(series.color), escaped(series.label));
  return "<figcaption>" + items + "</figcaption>\n";
}

}  // namespace

std::string color(std::size_t index) { return kColors[index % kColors.size()]; }

std::string figure(const Plot& plot) {
  const std::vector<Layer> layers = layers_of(plot);
  const Bounds b = bounds_of(layers, plot.from_zero);
  std::string html = fmt::format("<figure><h2>{}</h2>\n", escaped(plot.title));
  if (!(b.left <= b.right)) return html + "<p>No finite number to show.</p></figure>\n";
  const Axis x(b.left, b.right, 5, kLeft, kWidth - kRight), y(b.low, b.high, 5, kHeight - kBottom, kTop);
  html +=
      fmt::format("<svg viewBox='0 0 {} {}' role=img aria-label=\"{}\" data-x='{} {} {} {}' data-y='{} {} {} {}'>\n",
                  kWidth, kHeight, escaped(plot.title), x.low(), x.high(), kLeft, kWidth - kRight, y.low(), y.high(),
                  kHeight - kBottom, kTop);
  html += axes(plot, x, y);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) html += drawing(*layer, x, y);
  return html + "</svg>\n" + legend(plot) + "</figure>\n";
}

std::string escaped(const std::string& text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      case '\'': html += "&#39;"; break;
      default: html += c;
    }
  }
  return html;
}

}  // namespace shoal::report
