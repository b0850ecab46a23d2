fn main() {
    use platter_engines::sqlite::*;
    let a: Vec<String> = std::env::args().collect();
    let t: u64 = a.get(1).map_or(10, |a| a.parse().unwrap());
    for (journal, synchronous) in [(Journal::Delete, Synchronous::Extra), (Journal::Delete, Synchronous::Full), (Journal::Truncate, Synchronous::Full), (Journal::Persist, Synchronous::Full), (Journal::Wal, Synchronous::Full), (Journal::Wal, Synchronous::Normal)] {
    for claims in [Claims::Honest, Claims::Sequential] {
    let load = Load { seed: 1, transactions: t, journal, synchronous, claims };
    let at = std::time::Instant::now();
    println!("{load:?}");
    let r = Load::kit(1).run(|f, p| load.run(f, p), |f, p| load.check(f, p));
    match r { Ok(s) => println!("{s:?}"), Err(f) => println!("{f}") }
    println!("{:?}", at.elapsed());
    }}
}
