#include "models/model.h"

#include <torch/nn/module.h>

namespace shoal::models {

void Model::set_training(bool training) { module()->train(training); }

void Model::to_device(at::Device device) { module()->to(device); }

}  // namespace shoal::models
