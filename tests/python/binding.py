"""Checks the layouts and the bounds of the Python binding, examples/python/m3.py."""
import ctypes
import unittest

from m3 import Message, Vm


class Binding(unittest.TestCase):
    """Needs the library, and no node."""

    def test_a_message_has_48_bytes(self):
        self.assertEqual(ctypes.sizeof(Message), 48)
        self.assertEqual(Message.payload.offset, 8)

    def test_a_vm_has_224_bytes(self):
        self.assertEqual(ctypes.sizeof(Vm), 224)
        self.assertEqual((Vm.name.offset, Vm.grace_ms.offset), (44, 192))

    def test_ten_words_fill_the_payload(self):
        message = Message.of(7, *range(10))
        self.assertEqual([message.word(index) for index in range(10)], list(range(10)))
        self.assertEqual((message.source, message.type), (0, 7))

    def test_an_eleventh_word_is_refused(self):
        self.assertRaises(ValueError, Message.of, 7, *range(11))

    def test_a_word_outside_the_payload_is_refused(self):
        self.assertRaises(IndexError, Message().word, 10)
        self.assertRaises(IndexError, Message().word, -1)


if __name__ == "__main__":
    unittest.main()
