//! m3-wire
