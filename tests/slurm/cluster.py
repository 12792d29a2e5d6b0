"""The live tests' view of a sandbox's Slurm: jobs made of the job scripts of slurm/, as a user edits them, and waits
that end. Nothing in here knows a scenario."""
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
PATIENCE = 120  # seconds for what takes a few where nobody else uses the machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANDBOX = ROOT / "slurm/sandbox"
STATE = pathlib.Path(os.environ.get("SHOAL_SANDBOX_DIR", "/var/lib/shoal-sandbox"))
PROGRAMS = pathlib.Path(os.environ.get("SHOAL_TEST_PROGRAMS", ROOT / "build/release/bin"))

# A model so small that a step is a few milliseconds; what is tested here is the launch, not the arithmetic.
SAMPLES_A_STEP = 16
TINY = ["--model", "gpt2-tiny", "--layers", "1", "--heads", "2", "--hidden-size", "16", "--vocab-size", "256",
        "--max-positions", "16", "--sequence-length", "16", "--tokenizer", "bytes", "--data", str(ROOT / "LICENSE"),
        "--global-batch-size", str(SAMPLES_A_STEP), "--batch-size", "4", "--log-every", "5", "--schedule", "constant"]


def environment():
    """What a login shell of the sandbox has, with the module of Shoal: nothing of another Slurm's."""
    kept = {name: value for name, value in os.environ.items() if not re.match("(SLURM|SBATCH|PMIX)_", name)}
    return {**kept, "SLURM_CONF": str(STATE / "etc/slurm.conf"), "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "SLURM_PMIX_FENCE": "ring"}


def run(*command, timeout=PATIENCE, check=True, **options):
    """A command on the submit host; its output, both streams. A failure is told with it."""
    result = subprocess.run([str(word) for word in command], env=environment(), text=True, timeout=timeout,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
    if check and result.returncode != 0:
        raise AssertionError(f"exit code {result.returncode}: {shlex.join(map(str, command))}\n{result.stdout}")
    result.output = result.stdout
    return result


def node(verb, name):
    return run(SANDBOX / "node", verb, name)


def on_node(name, *command, check=True):
    return run(SANDBOX / "shell", name, *command, check=check).output


def wait_until(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.2)


def edited(script, lines, sbatch, parts):
    """The text of a job script with the part that users edit changed: the #SBATCH options named in `sbatch` (None takes
    one away), those of the parts of a heterogeneous job, and `lines` in place of the rest."""
    head, rest = re.split(r"(?m)^# ---- edit from here.*\n", (ROOT / "slurm" / script).read_text())
    edit, tail = re.split(r"(?m)^# ---- to here.*\n", rest)
    options = [line for line in edit.splitlines() if line.startswith("#SBATCH")]
    for name, value in sbatch.items():
        options = [line for line in options if not re.match(rf"#SBATCH --{name}\b", line)]
        if value is not None:
            options.append(f"#SBATCH --{name}={value}" if value != "" else f"#SBATCH --{name}")
    if parts:
        options = [line for line in options if line != "#SBATCH hetjob"]
        options.append("\n#SBATCH hetjob\n".join(f"#SBATCH {part}" for part in parts))
    return head + "\n".join([*options, *lines]) + "\n" + tail


def array(name, words):
    return f"{name}=({shlex.join(map(str, words))})"


class Job:
    def __init__(self, number, folder):
        self.number = number
        self.folder = folder

    def show(self):
        """What Slurm knows of it, by Slurm's names."""
        text = run("scontrol", "show", "job", "--oneliner", self.number, timeout=20).output.splitlines()[0]
        return dict(re.findall(r"(\w+)=(\S*)", text))

    def states_of_tasks(self):
        """Of an array: the state of each task that Slurm has made a job of; the rest is one line with their list."""
        lines = run("scontrol", "show", "job", "--oneliner", self.number, timeout=20).output.splitlines()
        fields = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
        return {field["ArrayTaskId"]: field["JobState"] for field in fields}

    @property
    def state(self):
        return self.show()["JobState"]

    @property
    def exit_code(self):
        return int(self.show()["ExitCode"].split(":")[0])

    @property
    def restarts(self):
        return int(self.show()["Restarts"])

    def log(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob(f"*{self.number}*.log")))

    def wait_for_state(self, *states, seconds=PATIENCE):
        return wait_until(lambda: self.state in states and self.state,
                          lambda: f"job {self.number} {'/'.join(states)}, it is {self.show()}\n{self.log()}", seconds)

    def wait_for_log(self, pattern, seconds=PATIENCE, count=1):
        """Waits until the pattern is in the log that often, and returns the match."""
        def found():
            matches = list(re.finditer(pattern, self.log()))
            return matches[count - 1] if len(matches) >= count else None
        return wait_until(found, lambda: f"/{pattern}/ in the log of job {self.number}, {self.show()}:\n{self.log()}",
                          seconds)

    def steps_told(self):
        return [int(step) for step in re.findall(r"step +(\d+) +epoch", self.log())]

    def steps_a_second(self):
        """Of the last ones told, of TINY's samples."""
        return float(re.findall(r" ([\d.]+) samples/s", self.log())[-1]) / SAMPLES_A_STEP

    def wait_for_step(self, step, seconds=PATIENCE):
        """Until it has trained that far."""
        return wait_until(lambda: max(self.steps_told(), default=0) >= step,
                          lambda: f"step {step} of job {self.number}, {self.show()}:\n{self.log()}", seconds)

    def wait_for_end(self, seconds=PATIENCE):
        states = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
        return self.wait_for_state(*states, seconds=seconds)

    def cancel(self):
        run("scancel", "--full", self.number, timeout=20, check=False)


def pids_of_ranks(name, job):
    """On a node, as the node counts, of the programs that the job's steps run there."""
    listing = on_node(name, "bash", "-c", "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | "
                      f"grep -qx SLURM_JOB_ID={job.number} && echo ${{p#/proc/}} $(cat $p/comm); done; true")
    return [int(line.split()[0]) for line in listing.splitlines() if line.split()[1:] == ["shoal-train"]]


class LiveTest(unittest.TestCase):
    """A case has a folder of its own, and leaves no job behind."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="shoal-slurm-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.jobs = []
        self.addCleanup(self.end_jobs)
        self.started = time.monotonic()

    def tearDown(self):
        print(f"{time.monotonic() - self.started:6.1f} s  {self.id().split('.')[-1]}", flush=True)

    def end_jobs(self):
        for job in self.jobs:
            job.cancel()
        for job in self.jobs:
            job.wait_for_end(60)
        # A node that was lost in a test is one again in the next.
        for line in run("sinfo", "--noheader", "--Node", "--format=%N %T").output.splitlines():
            if line.split()[1] in ("down", "down*", "drained", "draining"):
                run("scontrol", "update", f"nodename={line.split()[0]}", "state=resume", check=False)

    def submit(self, script, lines=(), options=(), parts=(), **sbatch):
        """Submits an edited job script; keyword arguments are #SBATCH options."""
        sbatch = {name.replace("_", "-"): value for name, value in sbatch.items()}
        path = self.folder / f"{len(self.jobs)}-{script}"
        path.write_text(edited(script, lines, sbatch, parts))
        number = run("sbatch", "--parsable", *options, path, cwd=self.folder).output.strip()
        self.jobs.append(Job(number, self.folder))
        return self.jobs[-1]

    def train(self, script="train.sbatch", train=(), checkpoints="ck", lines=(), **sbatch):
        """A training of the tiny model. `train` adds options, `lines` lines to the part that users edit."""
        words = [*TINY, "--checkpoint-dir", self.folder / checkpoints, *train]
        lines = [array("train", words), f"checkpoints={self.folder / checkpoints}", "groups=0,1", "mpi=pmix",
                 "site=ethernet", "starts=5", "fewest_nodes=1", *lines]
        defaults = {"cpus-per-task": 1, "time": "00:10:00"}
        return self.submit(script, lines, **{**defaults, **sbatch})

    def assert_same_weights(self, one, other):
        """To the last bit. Attributes tell of the run, and may differ."""
        self.assertRegex(run("h5ls", "-r", one).output, "Dataset")
        result = run("h5diff", "--verbose", one, other, check=False)
        self.assertLess(result.returncode, 2, result.output)
        for match in re.finditer(r"(?m)^dataset: (.*)\n(\d+) differences", result.output):
            self.assertEqual(match.group(2), "0", match.group(1))
        self.assertNotRegex(result.output, "(?i)not comparable|only in|^ +x +$")

    def endless(self):
        """Options of a training that does not end by itself, until a later start of it finds what end_at() wrote."""
        (self.folder / "steps.conf").write_text("max-steps = 1000000\n")
        return ["--config", self.folder / "steps.conf"]

    def end_at(self, step):
        """The next start of it is to end there."""
        (self.folder / "steps.conf").write_text(f"max-steps = {step}\n")
        return step

    def end_after_requeue(self, job):
        """While it waits in the queue, which it does for 6 s at least: some steps more than it has saved."""
        job.wait_for_state("PENDING")
        return self.end_at(self.steps_of(self.folder / "ck")[-1] + 60)

    def attempts(self, checkpoints="ck"):
        """The records of the run's attempts, the first one first."""
        folder = self.folder / checkpoints / "run/attempts"
        return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]

    def steps_of(self, folder):
        """The steps whose checkpoints were committed."""
        return sorted(int(path.parent.name.split("_")[1]) for path in folder.glob("step_*/COMMIT"))


def main():
    """Of each file of scenarios: skips where there is no sandbox, which is what the fixture said already."""
    if not (STATE / "settings").exists():
        print(f"skipped: there is no sandbox in {STATE}; it needs root and the packages of slurm/sandbox/install")
        sys.exit(SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(verbosity=2)
