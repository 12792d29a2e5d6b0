#include "apps/train_failure.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "core/activity.h"
#include "core/error.h"
#include "core/logging.h"
#include "launch/first_failure.h"
#include "launch/mpi_session.h"
#include "train/agreement.h"

namespace shoal::apps {

Failure current_failure() {
  try {
    throw;
  } catch (const activity::Leaving& error) {
    return {.code = error.exit_code(), .text = error.what(), .told = true};
  } catch (const train::AgreedError& error) {
    return {.code = error.exit_code(), .text = error.what(), .agreed = true};
  } catch (const Error& error) {
    return {.code = error.exit_code(), .text = error.what()};
  } catch (const std::bad_alloc&) {
    return {.code = ExitCode::device, .text = "out of memory: use a smaller --batch-size, or more ranks"};
  } catch (const c10::OutOfMemoryError& error) {
    return {.code = ExitCode::device,
            .text = fmt::format("the model does not fit into the GPU's memory: use more ranks, or --offload params: {}",
                                error.what_without_backtrace())};
  } catch (const c10::Error& error) {
    return {.text = error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {.text = error.what()};
  } catch (...) {
    return {.text = "an exception of an unknown kind"};
  }
}

ExitCode recording_failures(const std::function<ExitCode()>& body) {
  try {
    return body();
  } catch (...) {
    const Failure failure = current_failure();
    if (!failure.agreed) activity::leave_with(static_cast<int>(failure.code));
    if (!failure.told && (!failure.agreed || activity::slot().rank == 0))
      launch::record_failure(static_cast<int>(failure.code), failure.text);
    throw;
  }
}

void fail_job() noexcept {
  const Failure failure = current_failure();
  if (!failure.told) log::error("{}", failure.text);
  activity::leave_with(static_cast<int>(failure.code));
  launch::abort_job(static_cast<ExitCode>(activity::slot().leaving.load()));
}

}  // namespace shoal::apps
