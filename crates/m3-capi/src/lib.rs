//! m3-capi
