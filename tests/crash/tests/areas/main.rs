//! Deaths of members of areas, and of the daemon beside them.

mod deaths;
mod steps;
