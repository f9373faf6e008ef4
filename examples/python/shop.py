"""A server adds numbers for a client. The client learns that a third process killed the server.

    python3 shop.py
"""
import ctypes
import os
import signal
import sys
import time

from m3 import ANY, WITH_CREATOR, M3Error, Message, call, reply, start_node, start_vm

VM, SERVER, CLIENT = 7, 1, 2
ADD, SLEEP = 1, 2  # types of requests


def serve():
    """Adds two numbers, or sleeps."""
    call("mnx_bind", VM, SERVER)
    request = Message()
    while True:
        call("mnx_receive", ANY, ctypes.byref(request))
        if request.type == SLEEP:
            time.sleep(60)
        answer = Message.of(request.type, request.word(0) + request.word(1))
        reply(request.source, answer)


def main():
    """Runs the client. Returns the exit code."""
    start_node()
    start_vm(VM, "shop", WITH_CREATOR)  # a kill of this process ends the VM and the server
    server = os.fork()
    if server == 0:
        serve()
    call("mnx_bind", VM, CLIENT)
    call("mnx_wait4bindep_T", SERVER, ctypes.c_long(5000))
    message = Message.of(ADD, 2, 40)
    call("mnx_sendrec", SERVER, ctypes.byref(message))
    print("2 + 40 =", message.word(0))
    killer = os.fork()
    if killer == 0:
        time.sleep(0.1)
        os.kill(server, signal.SIGKILL)
        os._exit(0)
    try:
        call("mnx_sendrec", SERVER, ctypes.byref(Message.of(SLEEP)))
        print("a killed server answered")
        return 1
    except M3Error as error:
        print("killed:", error.strerror)
    os.waitpid(killer, 0)
    os.waitpid(server, 0)
    call("mnx_vm_end", VM)
    call("mnx_drvs_end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
