//! `libm3sock.so`: the functions of the C library that stand in front of a program's sockets.
#![allow(unsafe_code)]
