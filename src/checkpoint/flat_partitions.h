// How ZeRO cuts parameters, and the optimizer's states of them, into flat partitions of its ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/stored_tensor.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {

// Elements of a flattened tensor, from element `first` of `stored` on, which lies in `file`.
struct TensorPiece {
  Range elements;
  std::string file;
  formats::StoredTensor stored;
  std::int64_t first = 0;
};

struct FlatPartitions {
  static constexpr const char* kMasters = "model";  // the parameters in fp32

  // What one rank holds of one kind: a vector for each group of parameters.
  struct Part {
    std::string file;
    std::vector<formats::StoredTensor> groups;
  };
  std::map<std::string, std::vector<Part>> kinds;   // kMasters, "exp_avg", …: of each rank
  std::vector<std::vector<std::int64_t>> paddings;  // of each group: elements behind each of its parameters

  std::int64_t padding(std::size_t group, std::size_t parameter) const;
  // A parameter of `numel` elements. Without `each_cut` (ZeRO-1 and 2) the ranks' vectors of a group, one behind the
  // other, are the parameters, one behind the other, of which this begins at `begin`. With it (ZeRO-3) each rank has an
  // equal part of each parameter, at `begin` in all its groups, one behind the other. Nothing where they do not hold
  // it.
  std::vector<TensorPiece> pieces(const std::string& kind, bool each_cut, std::size_t group, std::int64_t begin,
                                  std::int64_t numel) const;

 private:
  // Of `rank`'s group, whose vector is [at, …) of what `wanted` counts in; that begins `shift` before the parameter.
  void add(std::vector<TensorPiece>& pieces, const std::string& kind, std::size_t rank, std::size_t group, Range wanted,
           std::int64_t at, std::int64_t shift) const;
};

}  // namespace shoal::checkpoint
