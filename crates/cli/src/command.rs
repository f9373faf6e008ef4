//! The subcommands, one file each.

pub mod bench;
pub mod call;
pub mod completions;
pub mod copy;
pub mod demo;
pub mod doctor;
pub mod down;
pub mod echo;
pub mod ldap;
pub mod listen;
pub mod man;
pub mod nodes;
pub mod notify;
pub mod ps;
pub mod run;
pub mod send;
pub mod sock;
pub mod supervise;
pub mod target;
pub mod trace;
pub mod up;
pub mod vm;
