#include "launch/rank_place.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "launch/number_ranges.h"

namespace shoal::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNothingLeftOut = static_cast<std::size_t>(-1);

Json gpu_json(const GpuPlace& gpu) { return {{"pci", gpu.pci}, {"uuid", gpu.uuid}, {"numa", gpu.numa}}; }

std::string list(const std::vector<int>& numbers) { return ranges_text(numbers, kNothingLeftOut); }

Json chosen_gpu(const RankPlace& place) {
  if (place.gpu < 0) return nullptr;
  const GpuPlace& gpu = place.visible.at(static_cast<std::size_t>(place.gpu));
  return {{"device", place.gpu}, {"pci", gpu.pci}, {"uuid", gpu.uuid}, {"numa", list(gpu.numa)}};
}

}  // namespace

std::string to_text(const RankPlace& place) {
  Json gpus = Json::array();
  for (const GpuPlace& gpu : place.visible) gpus.push_back(gpu_json(gpu));
  return Json{{"rank", place.rank},
              {"node", place.node},
              {"local", {place.local_rank, place.local_size}},
              {"host", place.host},
              {"cpus", place.cpus.cpus},
              {"numa", place.cpus.numa},
              {"cores", {place.cpus.cores, place.cpus.machine_cpus}},
              {"per_task", place.cpus_per_task},
              {"bind", place.cpu_bind},
              {"slurm_gpus", place.gpus_of_slurm},
              {"gpus", gpus},
              {"gpu", place.gpu}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankPlace parse_rank_place(const std::string& text) {
  try {
    const Json all = Json::parse(text);
    RankPlace place{.rank = all.at("rank"),
                    .node = all.at("node"),
                    .local_rank = all.at("local").at(0),
                    .local_size = all.at("local").at(1),
                    .host = all.at("host"),
                    .cpus = {all.at("cpus"), all.at("numa"), all.at("cores").at(0), all.at("cores").at(1)},
                    .cpus_per_task = all.at("per_task"),
                    .cpu_bind = all.at("bind"),
                    .gpus_of_slurm = all.at("slurm_gpus"),
                    .gpu = all.at("gpu")};
    for (const Json& gpu : all.at("gpus")) place.visible.push_back({gpu.at("pci"), gpu.at("uuid"), gpu.at("numa")});
    return place;
  } catch (const Json::exception& error) {
    throw InternalError("another rank's description of its place cannot be read: {}", error.what());
  }
}

std::string placement_json(std::span<const RankPlace> places, const std::string& job) {
  Json all{{"job", job}, {"ranks", Json::array()}};
  for (const RankPlace& place : places)
    all["ranks"].push_back({{"rank", place.rank},
                            {"host", place.host},
                            {"node", place.node},
                            {"local_rank", place.local_rank},
                            {"gpu", chosen_gpu(place)},
                            {"visible_gpus", place.visible.size()},
                            {"numa", list(place.cpus.numa)},
                            {"cpus", list(place.cpus.cpus)},
                            {"cores", place.cpus.cores},
                            {"machine_cpus", place.cpus.machine_cpus}});
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shoal::launch
