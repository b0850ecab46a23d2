//! Queries of TPC-H that scan.
//!
//! Source: TPC Benchmark H, revision 3.0.1, section 2.4, with the substitution parameters of its query validation. What SQL
//! differs: dates are text, so an interval is added beforehand. Left out are queries that do
//! not scan here: SQLite joins by looking rows up in indexes, as in Q3.

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sql {
    /// Its number in the specification: `Q1`.
    pub name: &'static str,
    /// Its text in SQLite's SQL.
    pub text: &'static str,
}

/// The queries, in the order of the specification.
pub static QUERIES: &[Sql] = &[
    Sql {
        name: "Q1",
        text: "select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), \
               sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), \
               avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) \
               from lineitem where l_shipdate <= '1998-09-02' \
               group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus",
    },
    Sql {
        name: "Q4",
        text: "select o_orderpriority, count(*) from orders \
               where o_orderdate >= '1993-07-01' and o_orderdate < '1993-10-01' and exists \
               (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) \
               group by o_orderpriority order by o_orderpriority",
    },
    Sql {
        name: "Q6",
        text: "select sum(l_extendedprice * l_discount) as revenue from lineitem \
               where l_shipdate >= '1994-01-01' and l_shipdate < '1995-01-01' \
               and l_discount between 0.0499 and 0.0701 and l_quantity < 24",
    },
    Sql {
        name: "Q12",
        text: "select l_shipmode, \
               sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end), \
               sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) \
               from orders, lineitem \
               where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate \
               and l_shipdate < l_commitdate and l_receiptdate >= '1994-01-01' and l_receiptdate < '1995-01-01' \
               group by l_shipmode order by l_shipmode",
    },
    Sql {
        name: "Q14",
        text: "select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end) \
               / sum(l_extendedprice * (1 - l_discount)) from lineitem, part \
               where l_partkey = p_partkey and l_shipdate >= '1995-09-01' and l_shipdate < '1995-10-01'",
    },
    Sql {
        name: "Q18",
        text: "select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) \
               from customer, orders, lineitem \
               where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 300) \
               and c_custkey = o_custkey and o_orderkey = l_orderkey \
               group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice \
               order by o_totalprice desc, o_orderdate limit 100",
    },
    Sql {
        name: "Q22",
        text: "select cntrycode, count(*), sum(c_acctbal) from \
               (select substr(c_phone, 1, 2) as cntrycode, c_acctbal from customer \
               where substr(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17') \
               and c_acctbal > (select avg(c_acctbal) from customer where c_acctbal > 0.00 \
               and substr(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17')) \
               and not exists (select * from orders where o_custkey = c_custkey)) \
               group by cntrycode order by cntrycode",
    },
];

/// Looks a query up by name.
pub fn find(name: &str) -> Option<&'static Sql> {
    QUERIES.iter().find(|query| query.name == name)
}
