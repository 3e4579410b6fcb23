"""What ends a plan in this process before it is made: the end of Python, Ctrl-C, a time limit, another
thread. Programs of their own, which say by their exit status how they fared."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import batchplan
import numpy
import pytest
from batchplan import _core, _local, _request
from processes import free_port

# A quarter of a second for each mini-batch, on a machine that is free.
HARD = {"dp": 16, "max_tokens": 8192, "mini_batch_size": 1000, "effort": "thorough", "synchronization": "accumulated"}
PROGRAM = f"""
import signal, sys, threading, time
import batchplan, numpy

def plan(mini_batches):
    lengths = numpy.random.default_rng(1).integers(2700, 2760, int(1000 * mini_batches)).astype(numpy.uint32)
    return batchplan.plan(lengths, **{{**{HARD!r}, "mini_batch_size": min(1000, len(lengths))}})
"""


def start(program):
    return subprocess.Popen([sys.executable, "-c", PROGRAM + textwrap.dedent(program)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def hard(mini_batches):
    return numpy.random.default_rng(1).integers(2700, 2760, 1000 * mini_batches).astype(numpy.uint32)


@pytest.mark.parametrize("mini_batches", [0.2, 100])
def test_python_ends_as_it_should_while_daemon_threads_plan(mini_batches):
    # Python takes its time after atexit: plans come back while it dismantles itself.
    runs = [start(f"""
        class Slow:
            def __init__(self):
                self.sleep = time.sleep

            def __del__(self):
                self.sleep(2)

        def work():
            while True:
                begun.set()
                plan({mini_batches})

        sys.slow = Slow()
        begun = threading.Event()
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
        time.sleep(0.3)
        """) for _ in range(8)]
    ends = [(run.communicate(timeout=120), run.returncode) for run in runs]
    assert ends == [(("", ""), 0)] * len(ends)


def test_threads_that_python_waits_for_have_their_plan():
    run = start("""
        def work():
            begun.set()
            print(len(plan(2).fingerprint))

        begun = threading.Event()
        threading.Thread(target=work).start()
        begun.wait()
        """)
    assert run.communicate(timeout=120) == ("64\n", "")
    assert run.returncode == 0


def test_what_runs_at_exit_may_plan():
    run = start("""
        import atexit

        def last():
            print(len(plan(1).fingerprint))

        atexit.register(last)
        """)
    assert run.communicate(timeout=120) == ("64\n", "") and run.returncode == 0


def test_a_child_that_was_forked_during_a_plan_ends_as_it_should():
    run = start("""
        import os

        threading.Thread(target=lambda: plan(2)).start()
        time.sleep(0.2)
        child = os.fork()
        if child == 0:
            print(len(plan(1).fingerprint), flush=True)
            sys.exit()
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """)
    assert run.communicate(timeout=120) == ("64\n", "") and run.returncode == 0


# A client calls in other threads while its process is forked, twice: the child's own client plans.
FORKED = """
    import os

    target = sys.argv[1]
    parent = batchplan.Client(target)
    stop = threading.Event()

    def call():
        while not stop.is_set():
            parent.plan([1, 2, 3], max_tokens=8)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    time.sleep(0.3)
    """


def forked(program, server):
    run = subprocess.Popen([sys.executable, "-c", PROGRAM + textwrap.dedent(FORKED) + textwrap.dedent(program), server],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, error = run.communicate(timeout=120)
    assert run.returncode == 0, error
    return out.splitlines()


def test_a_child_forked_during_calls_plans_by_a_client_of_its_own_and_not_by_its_parents(server):
    # gRPC aborts some one in fifty of such children, which nothing in them can keep it from: those are forked anew.
    lines = forked("""
        ended = forks = 0
        while ended < 2:
            forks += 1
            assert forks < 10
            child = os.fork()
            if child == 0:
                said = []
                try:
                    parent.plan([1], max_tokens=8)
                except batchplan.Error as error:
                    said.append(str(error))
                try:
                    said.append(len(batchplan.Client(target, timeout=20).plan([1], max_tokens=8).fingerprint))
                except batchplan.Unavailable as error:
                    said.append(str(error))
                print(*said, sep="\\n", flush=True)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            assert status == 0 or os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT, status
            ended += status == 0
        stop.set()
        """, server)
    assert len(lines) == 4
    for used, planned in zip(lines[::2], lines[1::2], strict=True):
        assert used == "the client was made before this process was forked; make one in each process"
        # gRPC may hang; then that is said, and in time.
        assert planned == "64" or "forked while another one used it" in planned


# gRPC's hang itself can't be had on demand: here is one that never returns.
@pytest.mark.parametrize("fallback", [False, True])
def test_where_grpc_hangs_in_a_forked_child_a_call_ends_in_its_time(server, fallback):
    lines = forked(f"""
        child = os.fork()
        if child == 0:
            from batchplan import _client
            _client.Client._send = lambda *_: threading.Event().wait()
            client = batchplan.Client(target, timeout=1, fallback={fallback})
            for _ in range(2):
                try:
                    print(len(client.plan([1], max_tokens=8, timeout=2).fingerprint), flush=True)
                except batchplan.Unavailable as error:
                    print(error, flush=True)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        stop.set()
        sys.exit(os.waitstatus_to_exitcode(status))
        """, server)
    assert len(lines) == 2
    for line in lines:
        assert line == "64" if fallback else "forked while another one used it" in line


def test_the_thread_that_is_kept_for_plans_is_no_one_elses_concern():
    """It takes no signals, and is gone before a fork, about which Python warns where there are threads."""
    run = start("""
        import os

        def threads():
            return len(os.listdir("/proc/self/task"))

        before = threads()
        plan(0.1)
        plan(0.1)
        assert threads() == before + 1, (threads(), before)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        os.kill(os.getpid(), signal.SIGUSR1)
        assert signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1
        child = os.fork()
        if child == 0:
            print(threads(), len(plan(0.1).fingerprint), threads(), flush=True)
            os._exit(0)
        assert threads() == before, threads()
        assert os.waitpid(child, 0)[1] == 0
        print(len(plan(0.1).fingerprint))
        """)
    assert run.communicate(timeout=120) == ("1 64 2\n64\n", "") and run.returncode == 0


@pytest.mark.parametrize("at_once", [1, 8])
def test_plans_of_threads_at_once_are_made_apart(at_once):
    lengths = hard(1)[:64]
    expected = batchplan.plan(lengths, dp=4, max_tokens=8192).fingerprint
    request = _request.Request(lengths, dp=4, max_tokens=8192)
    found = []

    def work():
        for _ in range(5):
            found.append(_local.plan_request(request, seconds=60).fingerprint)

    workers = [threading.Thread(target=work) for _ in range(at_once)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert found == [expected] * (5 * at_once)


def test_ctrl_c_ends_a_long_plan():
    run = start("""
        # What runs in the background has inherited that it is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("begins", flush=True)
        try:
            plan(100)
        except KeyboardInterrupt:
            print("interrupted")
        """)
    run.stdout.readline()
    time.sleep(1)
    begin = time.monotonic()
    run.send_signal(signal.SIGINT)
    assert run.communicate(timeout=120) == ("interrupted\n", "") and run.returncode == 0
    # The plan would have taken seconds more.
    assert time.monotonic() - begin < 10


def test_handlers_of_signals_run_during_a_plan():
    heard = []
    former = signal.signal(signal.SIGUSR1, lambda *_: heard.append(time.monotonic()))
    try:
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        timer.start()
        plan = batchplan.plan(hard(4), **HARD)
        assert heard and len(plan.fingerprint) == 64
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_plan_with_a_time_of_its_own_ends_with_that():
    request = _request.Request(hard(100), **HARD)
    begin = time.monotonic()
    with pytest.raises(batchplan.DeadlineExceeded, match="planning in process took longer than the 0.3 s left"):
        _local.plan_request(request, 0.3)
    assert time.monotonic() - begin < 10
    easy = _request.Request([1, 2], max_tokens=8)
    assert _local.plan_request(easy, 60).fingerprint == batchplan.plan([1, 2], max_tokens=8).fingerprint


def test_a_plan_that_another_thread_stops_is_given_up():
    stop = _core.Stop()
    timer = threading.Timer(0.3, stop.request)
    timer.start()
    with pytest.raises(batchplan.Error):
        _local.plan_request(_request.Request(hard(100), **HARD), stop=stop)


def test_a_task_that_is_cancelled_leaves_no_plan_behind():
    async def main():
        async with batchplan.AsyncClient(f"127.0.0.1:{free_port()}", timeout=600, fallback=True) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.plan(hard(100), **HARD), 5)

    begin = time.monotonic()
    # Waits for its threads.
    asyncio.run(main())
    assert time.monotonic() - begin < 20


def test_a_child_that_c_code_forked_plans_though_pythons_hooks_were_not_called():
    run = start("""
        import ctypes, os

        print(len(plan(0.1).fingerprint), flush=True)
        # Keeps Python's lock, which a thread that is not in the child could hold there else.
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            signal.alarm(30)
            print(len(plan(0.1).fingerprint), flush=True)
            os._exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """)
    assert run.communicate(timeout=120) == ("64\n64\n", "") and run.returncode == 0
