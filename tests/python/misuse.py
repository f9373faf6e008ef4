"""Wrong uses of the Python example binding, examples/python/m3.py, and the texts that they give.

misuse.txt has the right lines; run.sh compares them.
"""
import ctypes

import m3


def show(name, wrong):
    """Prints the exception of a wrong use."""
    try:
        wrong()
        print(f"{name}: no error")
    except Exception as error:  # each kind of error counts here
        print(f"{name}: {type(error).__name__}: {error}")


def bind(vm, slot):
    return m3.call("mnx_bind", vm, slot)


message = m3.Message.of(7)
show("eleven words", lambda: m3.Message.of(7, *range(11)))
show("a word that is too large", lambda: m3.Message.of(7, 1 << 40))
show("a word that is a text", lambda: m3.Message.of(7, "five"))
show("word 10", lambda: message.word(10))
show("word -1", lambda: message.word(-1))
show("a bind without a node", lambda: bind(0, 29))
m3.start_node()
show("a long name of a VM", lambda: m3.start_vm(0, "a-name-of-more-than-16-bytes"))
show("a VM id out of range", lambda: m3.start_vm(99, "shop"))
m3.start_vm(0, "shop")
again = m3.Vm(vmid=0, name=b"shop")
show("a VM twice", lambda: m3.call("mnx_vm_init", ctypes.byref(again)))
show("a slot out of range", lambda: bind(0, 9999))
show("an unbound sender", lambda: m3.sendrec(1, message))
own = bind(0, 29)
show("a second bind", lambda: bind(0, 30))
show("a request to nobody", lambda: m3.sendrec(1, message))
show("a request to itself", lambda: m3.sendrec(own, message))
show("a reply to nobody", lambda: m3.reply(1, message))
show("a receive from itself", lambda: m3.receive(own, message))
show("bytes that are a text", lambda: m3.sendrec(1, message, 5))
print("OK")
