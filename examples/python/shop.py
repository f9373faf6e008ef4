"""A server and a client in two processes, and what the client hears of a kill -9."""
import ctypes
import os
import signal
import sys
import time

from m3 import ANY, M3Error, Message, call

VM, SERVER, CLIENT = 7, 1, 2
ADD, SLEEP = 1, 2


def server():
    """Adds two numbers; sleeps when told."""
    call("mnx_bind", VM, SERVER)
    request = Message()
    while True:
        call("mnx_receive", ANY, ctypes.byref(request))
        if request.type == SLEEP:
            time.sleep(60)
        answer = Message.of(request.type, request.word(0) + request.word(1))
        call("mnx_reply", request.source, ctypes.byref(answer))


def main():
    """The client."""
    call("mnx_drvs_init", 0, None)
    make_vm()
    child = os.fork()
    if child == 0:
        server()
    call("mnx_bind", VM, CLIENT)
    call("mnx_wait4bindep_T", SERVER, ctypes.c_long(5000))
    message = Message.of(ADD, 2, 40)
    call("mnx_sendrec", SERVER, ctypes.byref(message))
    print("2 + 40 =", message.word(0))
    if os.fork() == 0:
        time.sleep(0.1)
        os.kill(child, signal.SIGKILL)
        os._exit(0)
    try:
        call("mnx_sendrec", SERVER, ctypes.byref(Message.of(SLEEP)))
        sys.exit("the dead answered")
    except M3Error as error:
        print("killed:", error)
    call("mnx_vm_end", VM)
    call("mnx_drvs_end")


def make_vm():
    """A VM with the node's limits: its record is all zeros but for the id and the name."""
    record = ctypes.create_string_buffer(224)
    ctypes.memmove(record, ctypes.byref(ctypes.c_int(VM)), 4)
    ctypes.memmove(ctypes.addressof(record) + 44, b"shop", 5)
    call("mnx_vm_init", record)


if __name__ == "__main__":
    main()
