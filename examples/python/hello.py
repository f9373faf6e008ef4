"""A client sends a string to a server, gets an answer, and learns that the server died.

    python3 hello.py

The parent is the client. The child is the server; its second request ends it with SIGKILL.
"""
import ctypes
import os
import signal
import sys

import m3
from m3 import ANY, M3Error, Message, call, receive, reply, sendrec, start_node, start_vm

VM, SERVER, CLIENT = 8, 1, 2  # the endpoint of a server slot is the slot
GREET, CRASH = 1, 2  # types of requests
SRCDIED = -108


def serve():
    """Answers each greeting until a request of type CRASH comes."""
    call("mnx_bind", VM, SERVER)
    request = Message()
    while True:
        text = receive(ANY, request)
        if request.type == CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        reply(request.source, request, text + b", endpoint %d" % request.source)


def main():
    """Runs the client. Returns the exit code."""
    start_node()
    start_vm(VM, "hello", m3.WITH_CREATOR)  # a kill of this process ends the VM and the server
    server = os.fork()
    if server == 0:
        serve()
    call("mnx_bind", VM, CLIENT)
    call("mnx_wait4bindep_T", SERVER, ctypes.c_long(5000))
    print("the server answered:", sendrec(SERVER, Message.of(GREET), b"hello").decode())
    code = 0
    try:
        sendrec(SERVER, Message.of(CRASH))
    except M3Error as error:
        code = error.code
        print("the server was killed:", error.strerror)
    os.waitpid(server, 0)
    call("mnx_vm_end", VM)
    return 0 if code == SRCDIED else 1


if __name__ == "__main__":
    sys.exit(main())
