fn main() {
    use platter_engines::redb_store::*;
    let t: u64 = std::env::args().nth(1).map_or(10, |a| a.parse().unwrap());
    let load = Load { seed: 1, transactions: t, ..Default::default() };
    let at = std::time::Instant::now();
    let r = Load::kit(1).run(|f, p| load.run(f, p), |f, p| load.check(f, p));
    match r { Ok(s) => println!("{s:?}"), Err(f) => println!("{f}") }
    println!("{:?}", at.elapsed());
}
