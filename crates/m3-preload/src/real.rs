//! The real calls: system calls without the C library's wrappers, which this library stands in front of.
