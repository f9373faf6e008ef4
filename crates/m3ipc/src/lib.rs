//! m3ipc
