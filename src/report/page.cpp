#include "report/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "report/plots.h"

namespace shoal::report {
namespace {

constexpr const char* kStyle = R"(
*{box-sizing:border-box}
body{margin:0 auto;max-width:1500px;padding:12px;font:15px/1.45 system-ui,sans-serif;color:#222;background:#fff}
h1{font-size:1.3rem;margin:.2em 0 .6em}
h2{font-size:1rem;margin:0 0 .3em;overflow-wrap:anywhere}
.wide{overflow-x:auto;margin-bottom:14px}
table{border-collapse:collapse;font-size:.9rem}
th,td{padding:3px 12px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}
thead th{white-space:nowrap}
main{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))}
figure{margin:0;padding:10px;border:1px solid #ddd;border-radius:6px;min-width:0}
svg{display:block;width:100%;height:auto;font-size:12px}
text{fill:#444}.end{text-anchor:end}.middle{text-anchor:middle}.name{fill:#222}
.grid{stroke:#e4e4e4}.tick,.axis{stroke:#777;fill:none}
polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}
figcaption{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:.85rem;min-height:1.5em;overflow-wrap:anywhere}
i{display:inline-block;width:16px;height:4px;margin:0 5px 3px 0;background:var(--c)}
i.dot{width:8px;height:8px;border-radius:4px;margin-bottom:1px}
i.dash{background:repeating-linear-gradient(90deg,var(--c) 0 5px,transparent 5px 8px)}
output{display:block;font-size:.85rem;color:#555;min-height:1.4em}
)";

// The nearest point of each line to where the pointer is, in numbers.
constexpr const char* kScript = R"(
for (const svg of document.querySelectorAll('svg')) {
  const says = svg.parentNode.appendChild(document.createElement('output'));
  const axis = name => svg.dataset[name].split(' ').map(Number);
  const value = ([low, high, from, to], pixel) => low + (pixel - from) / (to - from) * (high - low);
  const points = e => e.points ? [...e.points] : [...e.children].map(c => ({x: c.cx.baseVal.value, y: c.cy.baseVal.value}));
  svg.addEventListener('pointermove', event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const found = [...svg.querySelectorAll('[data-label]')].map(e => {
      const near = points(e).reduce((a, b) => Math.abs(b.x - at.x) < Math.abs(a.x - at.x) ? b : a);
      return `${e.dataset.label}: ${value(axis('y'), near.y).toPrecision(4)} at step ${Math.round(value(axis('x'), near.x))}`;
    });
    says.textContent = found.join(' · ');
  });
}
)";

using Cells = std::vector<std::string>;

double mean_rate(const launch::MetricsHistory& metrics) {
  const double sum = std::accumulate(metrics.steps.begin(), metrics.steps.end(), 0.0,
                                     [](double total, const auto& step) { return total + step.samples_per_second; });
  return sum / static_cast<double>(metrics.steps.size());
}

double peak_gib(const launch::MetricsHistory& metrics) {
  std::int64_t peak = 0;
  for (const auto& step : metrics.steps) peak = std::max(peak, step.peak);
  return static_cast<double>(peak) / (1024.0 * 1024 * 1024);
}

// Of all attempts, by what they wrote of themselves.
double run_seconds(const Run& run) {
  double seconds = 0;
  for (const auto& attempt : run.overview.attempts) {
    double last = attempt.ended.value_or(attempt.started);
    for (const auto& step : run.metrics.steps)
      if (step.attempt == attempt.attempt) last = std::max(last, step.time);
    seconds += last - attempt.started;
  }
  return seconds;
}

Cells row_of(const Run& run) {
  const launch::StepMetrics& last = run.metrics.steps.back();
  const launch::MetricsStart start = run.metrics.starts.empty() ? launch::MetricsStart{} : run.metrics.starts.back();
  const std::string tests = run.metrics.validations.empty()
                                ? "-"
                                : fmt::format("{:.4f}, {:.2f} %", run.metrics.validations.back().loss,
                                              100 * run.metrics.validations.back().accuracy);
  return {run.name,
          start.model,
          start.strategy,
          fmt::format("{} × {}", last.ranks, start.device),
          run.overview.state,
          fmt::format("{}", run.overview.attempts.size()),
          start.total_steps > 0 ? fmt::format("{} of {}", last.step, start.total_steps) : fmt::format("{}", last.step),
          fmt::format("{:.6g}", last.loss),
          tests,
          fmt::format("{:.4g}", mean_rate(run.metrics)),
          fmt::format("{:.3f}", peak_gib(run.metrics)),
          fmt::format("{:.1f}", run_seconds(run))};
}

std::string row(const Cells& cells, const char* tag) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) html += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return html + "</tr>\n";
}

std::string table(const std::vector<Run>& runs) {
  const Cells names{"run",
                    "model",
                    "strategy",
                    "ranks",
                    "state",
                    "attempts",
                    "step",
                    "loss",
                    "validation loss, accuracy",
                    "samples/s",
                    "peak of rank 0 (GiB)",
                    "run time (s)"};
  std::string html = "<div class=wide><table><thead>" + row(names, "th") + "</thead><tbody>\n";
  for (const Run& run : runs) html += row(row_of(run), "td");
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string page(const std::vector<Run>& runs) {
  const std::string title = runs.size() == 1 ? runs[0].name : fmt::format("{} runs", runs.size());
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
      "<title>Shoal: {0}</title><style>{1}</style></head><body>\n<h1>Shoal: {0}</h1>\n",
      escaped(title), kStyle);
  html += table(runs) + "<main>\n";
  for (const Plot& plot : plots_of(runs)) html += figure(plot);
  return html + "</main>\n<script>" + kScript + "</script></body></html>\n";
}

}  // namespace shoal::report
