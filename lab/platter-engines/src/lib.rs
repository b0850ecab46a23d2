//! Storage engines that others wrote, on disks whose power is cut: [redb](redb_store) and [SQLite](sqlite).
//!
//! Both run on the kit's [files](platter_kit::files) and record their transactions in a
//! [`History`](platter_kit::History). The programs `redb` and `sqlite` in `examples/` run them with any
//! number of cuts; the tests run less. The program `platter-dsw` [records](dsw) decision-support queries on SQLite.

pub mod dsw;
mod fixed_random;
pub mod redb_store;
mod registered;
pub mod report;
pub mod sqlite;
