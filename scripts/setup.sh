#!/usr/bin/env bash
# Sets up Shoal in this clone: system packages, LibTorch, configure, build. Safe to run again, quick when all is there.
set -euo pipefail
program=setup
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/common.sh

torch_version=2.11.0
cache=${SHOAL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/shoal}
venv=$cache/torch-$torch_version

usage() {
  cat <<USAGE
Usage: scripts/setup.sh [--preset P] [--interop] [--programs | --unit-tests | --no-build] [-j N]

  --preset P   CMake preset: release (default), dev, cuda, mpio, asan, tsan; the build goes to build/P
  --interop    also installs Python's PyTorch, transformers, h5py, …, which the interop tests compare with
  --programs   builds the programs alone, without tests and benchmarks
  --unit-tests builds what the tests of the label "unit" need alone
  --no-build   stops after configuring
  -j N         compile N files at once (default: the number of cores)
  --help       this text

LibTorch is taken from Torch_DIR, LibTorch_ROOT or CMAKE_PREFIX_PATH where one of them has it, else downloaded once into
$venv (\$SHOAL_CACHE moves it).
USAGE
}

usage_error() {
  echo "setup: error: $1" >&2
  usage >&2
  exit 2
}

parse_options() {
  preset=release interop=no build=all jobs=$(nproc)
  while (($# > 0)); do
    case $1 in
      --help | -h) usage && exit 0 ;;
      --preset) (($# > 1)) || usage_error "--preset needs a name"; preset=$2; shift ;;
      --preset=*) preset=${1#*=} ;;
      --interop) interop=yes ;;
      --programs) build=programs ;;
      --unit-tests) build=unit_tests ;;
      --no-build) build=none ;;
      -j) (($# > 1)) || usage_error "-j needs a number"; jobs=$2; shift ;;
      -j*) jobs=${1#-j} ;;
      *) usage_error "unknown option '$1'" ;;
    esac
    shift
  done
  [[ $preset =~ ^(release|dev|cuda|mpio|asan|tsan)$ ]] || usage_error "there is no preset '$preset'"
  [[ $jobs =~ ^[1-9][0-9]*$ ]] || usage_error "-j wants a number of 1 or more, not '$jobs'"
}

# ---- system packages -------------------------------------------------------------------------------------------------

debian_packages=(g++ cmake ninja-build ccache mold git ca-certificates python3 python3-venv openmpi-bin libopenmpi-dev
  libhdf5-dev hdf5-tools libboost-program-options-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libyaml-cpp-dev
  libgtest-dev libisal-dev libhwloc-dev zlib1g-dev openssh-client)

# Prints "what|Debian package|module|Spack package" for each thing that the build needs and that is not there, whoever
# brought the others: the system, modules or Spack.
missing_packages() {
  local tools_missing=no
  require() { [[ -n $(command -v "$1") ]] || { tools_missing=yes && echo "$1|$2|$3|$4"; }; }
  require "${CXX:-g++}" g++ gcc gcc
  require cmake cmake cmake cmake
  require ninja ninja-build ninja ninja
  require git git git git
  [[ $tools_missing == no ]] || return 0
  mkdir -p build/logs
  cmake -S cmake/probe -B build/probe -G Ninja >build/logs/probe.log 2>&1 && return 0
  grep -E '^ +[A-Za-z_0-9]+\|' build/logs/probe.log | sed 's/^ *//' && return 0
  echo "setup: error: CMake cannot use the compiler; the end of build/logs/probe.log:" >&2
  tail -n 15 build/logs/probe.log >&2
  return 1
}

may_administrate() {
  [[ -n $(command -v apt-get) ]] && { ((EUID == 0)) || sudo -n true 2>/dev/null; }
}

as_administrator() {
  if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

absent_debian_packages() {
  local package
  for package in "${debian_packages[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed$' || echo "$package"
  done
}

install_debian_packages() {
  local absent start=$SECONDS
  mapfile -t absent < <(absent_debian_packages)
  ((${#absent[@]} > 0)) || return 0
  say "installing ${#absent[@]} Debian packages"
  run_logged apt-update as_administrator apt-get update -q
  run_logged apt-install as_administrator env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${absent[@]}"
  say "Debian packages are installed ($((SECONDS - start)) s)"
}

tell_what_to_install() {
  local missing=$1 debian
  column_of() { cut -d'|' -f"$1" <<<"$missing" | xargs; }
  debian=$(column_of 2)
  # Where tools are missing nothing could be asked of CMake yet: the rest is named too, to save a second round.
  [[ -z $(command -v dpkg-query) ]] || debian=$(absent_debian_packages | xargs)
  echo "setup: error: missing: $(column_of 1). Do one of these and run this again:" >&2
  echo "  an administrator:  apt-get install -y --no-install-recommends $debian" >&2
  echo "  modules:           module load $(column_of 3)     (a site may name them otherwise: module avail)" >&2
  echo "  Spack:             spack install $(column_of 4) && spack load $(column_of 4 | sed 's/[~+][^ ]*//g')" >&2
  exit 1
}

provide_packages() {
  local missing
  missing=$(missing_packages)
  if [[ -n $missing || -z $(command -v ccache) ]] && may_administrate; then
    install_debian_packages
    missing=$(missing_packages)
  fi
  [[ -z $missing ]] || tell_what_to_install "$missing"
}

# ---- LibTorch --------------------------------------------------------------------------------------------------------

own_torch() {
  local dir
  for dir in "${Torch_DIR:-}" "${LibTorch_ROOT:+$LibTorch_ROOT/share/cmake/Torch}"; do
    [[ -n $dir && -e $dir/TorchConfig.cmake ]] && echo "$dir" && return 0
  done
  while read -r -d: dir; do
    [[ -n $dir ]] || continue
    [[ -e $dir/Torch/TorchConfig.cmake || -e $dir/share/cmake/Torch/TorchConfig.cmake ]] && echo "$dir" && return 0
  done <<<"${CMAKE_PREFIX_PATH:-}:"
  return 1
}

find_nvcc() {
  if [[ -z ${CUDACXX:-} && -z $(command -v nvcc) && -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
    export CUDACXX=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
  fi
  [[ -n ${CUDACXX:-} || -n $(command -v nvcc) ]]
}

# "all": with CUDA libraries and Python packages; "cpu": what CPU programs link to and nothing else.
wanted_torch() {
  if [[ $interop == yes || $preset == cuda ]]; then
    echo all
  elif [[ ! $preset =~ san$ ]] && find_nvcc; then
    echo all
  else
    echo cpu
  fi
}

# What the folder says when it holds that much: for "all", which list of packages it was filled from.
stamp_of() {
  case $1 in all) echo "all $(cksum <tests/interop/requirements.txt)" ;; cpu) echo cpu ;; esac
}

have_torch() {
  local stamp
  stamp=$(cat "$venv/shoal-complete" 2>/dev/null) || return 1
  [[ $stamp == "$(stamp_of "$1")" || ($1 == cpu && $stamp == all*) ]]
}

find_python() {
  local python
  for python in python3 python3.13 python3.12 python3.11 python3.10; do
    "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$python" && return 0
  done
  die "no Python >= 3.10 with venv, which brings LibTorch: install python3-venv (or module load python), or set Torch_DIR"
}

check_space() {
  local needed_mib=$1 free_mib
  free_mib=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
  ((free_mib >= needed_mib)) ||
    die "LibTorch needs $needed_mib MiB in $cache, where $free_mib MiB are free: set SHOAL_CACHE to another folder"
}

# The file shoal-complete is written last and removed first: a folder without it is one that was left half-made.
fill_venv() {
  local kind=$1 python pip
  local cpu_wheels=("torch==$torch_version" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
  if have_torch cpu; then
    rm "$venv/shoal-complete"
  else
    python=$(find_python)
    rm -rf "$venv"
    run_logged venv "$python" -m venv "$venv"
  fi
  pip=("$venv/bin/python" -m pip install --no-cache-dir --no-input --disable-pip-version-check --quiet)
  if [[ $kind == all ]]; then
    run_logged pip "${pip[@]}" -r tests/interop/requirements.txt
  else
    run_logged pip "${pip[@]}" --no-deps "${cpu_wheels[@]}"
  fi
  stamp_of "$kind" >"$venv/shoal-complete"
}

provide_torch() {
  local own kind start=$SECONDS
  if [[ $interop == no ]] && own=$(own_torch); then
    say "LibTorch is yours, in $own"
    return 0
  fi
  kind=$(wanted_torch)
  if ! have_torch "$kind"; then
    mkdir -p "$cache"
    (
      flock 9  # another clone may be at it
      if ! have_torch "$kind"; then
        case $kind in all) check_space 7000 ;; cpu) check_space 2000 ;; esac
        say "downloading LibTorch $torch_version ($kind) into $venv"
        fill_venv "$kind"
      fi
    ) 9>"$venv.lock"
  fi
  say "LibTorch $torch_version is in $venv ($((SECONDS - start)) s)"
}

# ---- build -----------------------------------------------------------------------------------------------------------

configure_and_build() {
  local start=$SECONDS
  find_nvcc || true
  run_logged "$preset-configure" cmake --preset "$preset"
  say "configured build/$preset ($((SECONDS - start)) s)"
  [[ $build != none ]] || return 0
  start=$SECONDS
  say "building with -j $jobs; the log is build/logs/$preset-build.log"
  run_logged "$preset-build" cmake --build --preset "$preset" --target "$build" -j "$jobs"
  say "built; the programs are in build/$preset/bin ($((SECONDS - start)) s)"
}

parse_options "$@"
provide_packages
provide_torch
configure_and_build
