//! The tables of TPC-H that the queries read, and their rows.

use crate::registered::Store;
use rusqlite::params_from_iter;
use std::fmt::Display;
use tpchgen::generators::{CustomerGenerator, LineItemGenerator, OrderGenerator, PartGenerator};

/// Settings of a load that need not survive a crash, and the tables. Types are those of section 1.4 of the
/// specification; dates are text, decimals floating-point numbers.
const TABLES: &str = "
    pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -65536; pragma temp_store = memory;
    create table part (p_partkey integer primary key, p_name text, p_mfgr text, p_brand text, p_type text,
        p_size integer, p_container text, p_retailprice real, p_comment text);
    create table customer (c_custkey integer primary key, c_name text, c_address text, c_nationkey integer,
        c_phone text, c_acctbal real, c_mktsegment text, c_comment text);
    create table orders (o_orderkey integer primary key, o_custkey integer, o_orderstatus text, o_totalprice real,
        o_orderdate text, o_orderpriority text, o_clerk text, o_shippriority integer, o_comment text);
    create table lineitem (l_orderkey integer, l_partkey integer, l_suppkey integer, l_linenumber integer,
        l_quantity real, l_extendedprice real, l_discount real, l_tax real, l_returnflag text, l_linestatus text,
        l_shipdate text, l_commitdate text, l_receiptdate text, l_shipinstruct text, l_shipmode text,
        l_comment text);";

/// Indexes of foreign keys, after the rows so that they are in sequence, and what the planner knows of them.
const INDEXES: &str = "
    create index lineitem_order on lineitem (l_orderkey);
    create index orders_customer on orders (o_custkey);
    analyze;";

/// Makes the tables and fills them.
pub(super) fn load(store: &Store<'_>, scale: f64, progress: &mut dyn FnMut(&str)) -> rusqlite::Result<()> {
    store.execute_batch(TABLES)?;
    fill(store, "part", 9, PartGenerator::new(scale, 1, 1).iter(), progress)?;
    fill(store, "customer", 8, CustomerGenerator::new(scale, 1, 1).iter(), progress)?;
    fill(store, "orders", 9, OrderGenerator::new(scale, 1, 1).iter(), progress)?;
    fill(store, "lineitem", 16, LineItemGenerator::new(scale, 1, 1).iter(), progress)?;
    progress("indexes");
    store.execute_batch(INDEXES)
}

/// Inserts rows, which are shown as `dbgen` writes them: values that each end with `|`. The table's types make numbers of
/// them.
fn fill(
    store: &Store<'_>,
    table: &str,
    columns: usize,
    rows: impl Iterator<Item = impl Display>,
    progress: &mut dyn FnMut(&str),
) -> rusqlite::Result<()> {
    progress(table);
    store.execute_batch("begin")?;
    let marks = vec!["?"; columns].join(", ");
    let mut insert = store.prepare(&format!("insert into {table} values ({marks})"))?;
    for row in rows {
        let text = row.to_string();
        insert.execute(params_from_iter(text.split_terminator('|')))?;
    }
    store.execute_batch("commit")
}
