"""Hosts of a network, made of Linux namespaces on one machine: each has a name, an address on a switch, processes, shared memory, a
time since its start and an end of its own; the file system is the one of the machine, as a cluster shares one.

  with network("node1", "node2") as (one, two):
      one.run(["hostname"])                  # subprocess.run on that host
      process = two.start(["sleep", "100"])  # subprocess.Popen
      two.power_off()                        # kill -9 of all that runs there, and its link is gone

Needs root, or a kernel that lets users make namespaces: why_not() says which is missing.
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys

SUBNET = "10.77.31"
# The first process of a host: ready when it says so, takes the ends of what nobody waits for, ends with its standard input.
INIT = """
import signal, subprocess, sys
name = sys.argv[1]
subprocess.run(["hostname", name], check=True)
if sys.argv[3] == "apart":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm"], check=True)
subprocess.run(["mount", "--bind", sys.argv[2], "/etc/hosts"], check=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.read()
"""
UNSHARE = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
# Linux has had clocks of its own for a namespace since 5.6.
OWN_CLOCKS = os.path.exists("/proc/self/ns/time")
# Starts containers that have networks of their own, and one memory.
UNSHARE_NETWORK = ["unshare", "--net", "--mount", "--uts", "--fork", "--kill-child"]


def end_with_parent():
    """PR_SET_PDEATHSIG: no host outlives the test."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Host:
    def __init__(self, name, address, hosts_file, apart=True, up_s=0):
        """`up_s`: since when it is up, by its own clocks, beside the machine's own time."""
        self.name, self.address = name, address
        clocks = ["--time", "--monotonic", str(up_s), "--boottime", str(up_s)] if apart and OWN_CLOCKS else []
        self.spaces = ["--net", "--mount", "--uts", *(["--ipc", "--pid"] if apart else []), *clocks[:1]]
        self.unshare = subprocess.Popen([*(UNSHARE if apart else UNSHARE_NETWORK), *clocks, sys.executable, "-c", INIT, name, hosts_file,
                                         "apart" if apart else "one memory"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=end_with_parent)
        assert self.unshare.stdout.readline() == "ready\n", f"host {name} does not start"
        children = f"/proc/{self.unshare.pid}/task/{self.unshare.pid}/children"
        with open(children) as file:
            self.init = int(file.read().split()[0])

    def inside(self, command):
        return ["nsenter", "--target", str(self.init), *self.spaces, "--wd=" + os.getcwd(), "--", *map(str, command)]

    def run(self, command, **options):
        return subprocess.run(self.inside(command), text=True, **options)

    def start(self, command, **options):
        return subprocess.Popen(self.inside(command), text=True, preexec_fn=end_with_parent, **options)

    def ip(self, *words):
        """An address of its network, in the processes' numbers of this test."""
        subprocess.run(["nsenter", "--target", str(self.init), "--net", "ip", *map(str, words)], check=True)

    def kill(self, pid, number=signal.SIGKILL):
        """`pid` as the host's own processes call it."""
        return self.run(["kill", f"-{int(number)}", pid], stderr=subprocess.DEVNULL).returncode == 0

    def power_off(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init, signal.SIGKILL)
        self.unshare.wait()

    def link(self, up):
        """Whether the host is on the network."""
        self.ip("link", "set", "eth0", "up" if up else "down")


def why_not():
    """Why no hosts can be made here; "": they can."""
    for program in ("ip", "unshare", "nsenter", "mount", "hostname"):
        if subprocess.run(["sh", "-c", f"command -v {program}"], stdout=subprocess.DEVNULL).returncode != 0:
            return f"there is no program {program} (Debian's iproute2 and util-linux)"
    if os.geteuid() != 0:
        return "only root can make namespaces"
    tried = subprocess.run([*UNSHARE, "sh", "-c", "ip link add bridge type bridge && ip link add port type veth peer name eth0"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if tried.returncode == 0 else "no namespaces with a network here: " + " ".join(tried.stdout.split())


@contextlib.contextmanager
def network(folder, *names, apart=True):
    """Hosts on one switch, by these names; `folder` gets the list of their addresses. Not `apart`: they share memory and the
    numbers of processes, as containers of one machine may."""
    addresses = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, 1)}
    hosts_file = os.path.join(folder, "hosts")
    with open(hosts_file, "w") as file:
        file.write("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items()))
    with contextlib.ExitStack() as stack:
        def host(name, address, number=0):
            made = Host(name, address, hosts_file, apart, 10000 * number)
            stack.callback(made.power_off)
            made.ip("link", "set", "lo", "up")
            return made

        switch = host("switch", "")
        switch.ip("link", "add", "bridge", "type", "bridge")
        switch.ip("link", "set", "bridge", "up")
        hosts = []
        for number, (name, address) in enumerate(addresses.items(), 1):
            made = host(name, address, number)
            switch.ip("link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", made.init)
            switch.ip("link", "set", f"port{number}", "master", "bridge", "up")
            made.ip("address", "add", f"{address}/24", "dev", "eth0")
            made.link(up=True)
            hosts.append(made)
        yield hosts
