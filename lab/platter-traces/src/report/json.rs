//! The sum as JSON.

use super::{KINDS, STAGES, Spread, Summary};
use serde_json::{Map, Value, json};

/// A spread as keys with a name in front and a unit behind.
fn spread(map: &mut Map<String, Value>, name: &str, unit: &str, spread: Option<&Spread>) {
    map.insert(format!("{name}_n"), json!(spread.map_or(0, |spread| spread.n)));
    let mut put = |key: &str, value: Option<Value>| {
        map.insert(format!("{name}_{key}{unit}"), value.unwrap_or(Value::Null));
    };
    put("min", spread.map(|s| json!(s.min)));
    put("mean", spread.map(|s| json!(s.mean)));
    put("p50", spread.map(|s| json!(s.p50)));
    put("p99", spread.map(|s| json!(s.p99)));
    put("max", spread.map(|s| json!(s.max)));
}

fn percent(part: u64, whole: u64) -> Value {
    if whole == 0 { Value::Null } else { json!(100.0 * part as f64 / whole as f64) }
}

impl Summary {
    /// I/Os of all kinds.
    pub fn ios(&self) -> u64 {
        self.kinds[..5].iter().map(|kind| kind.ios).sum()
    }

    /// The sum as JSON.
    pub fn to_json(&self) -> Value {
        let mut stages = Map::new();
        for ((name, _), found) in STAGES.iter().zip(&self.stages) {
            spread(&mut stages, name, "_ns", found.as_ref());
        }
        let mut kinds = Map::new();
        for ((name, _), counted) in KINDS.iter().zip(&self.kinds) {
            kinds.insert(format!("{name}_ios"), json!(counted.ios));
            kinds.insert(format!("{name}_bytes"), json!(counted.bytes));
        }
        let mut lengths = Map::new();
        for ((name, _), found) in KINDS.iter().zip(&self.lengths) {
            spread(&mut lengths, name, "_bytes", found.as_ref());
        }
        let size = |row: &super::Sizes| {
            let [read, write, discard] = row.ios;
            json!({ "from_bytes": row.from_bytes, "read_ios": read, "write_ios": write, "discard_ios": discard })
        };
        json!({
            "basis": self.basis.letters(),
            "events": self.events,
            "errors": self.errors,
            "devices": self.devices,
            "duration_ns": self.duration_ns,
            "ios": self.ios(),
            "stages": stages,
            "unfinished": self.unfinished,
            "kinds": kinds,
            "flush_pct": percent(self.kinds[3].ios + self.kinds[5].ios, self.ios()),
            "fua_pct_of_writes": percent(self.kinds[6].ios, self.kinds[1].ios),
            "lengths": lengths,
            "sizes": self.sizes.iter().map(size).collect::<Vec<_>>(),
            "seeks": self.seeks_json(),
            "reuse": self.reuse_json(),
            "footprint_bytes": self.footprint_bytes,
            "span_ns": self.span_ns,
            "spans": self.spans_json(),
            "heat": self.heat,
            "heat_outside_ios": self.heat_outside,
        })
    }

    fn seeks_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("sequential_ios".to_owned(), json!(self.seeks.sequential));
        map.insert("forward_ios".to_owned(), json!(self.seeks.forward));
        map.insert("backward_ios".to_owned(), json!(self.seeks.backward));
        spread(&mut map, "distance", "_bytes", self.seeks.distance.as_ref());
        spread(&mut map, "run", "_ios", self.seeks.run_ios.as_ref());
        spread(&mut map, "run_length", "_bytes", self.seeks.run_bytes.as_ref());
        Value::Object(map)
    }

    fn reuse_json(&self) -> Value {
        let reuse = &self.reuse;
        let row = |(bytes, pct): &(u64, f64)| json!({ "cache_bytes": bytes, "miss_pct": pct });
        json!({
            "block_bytes": super::access::BLOCK,
            "sampled_pct": reuse.sampled_pct,
            "first_pct": reuse.first_pct,
            "median_bytes": reuse.median_bytes,
            "misses": reuse.misses.iter().map(row).collect::<Vec<_>>(),
        })
    }

    fn spans_json(&self) -> Value {
        let row = |span: &super::Span| {
            let mut map = Map::new();
            for (kind, (name, _)) in KINDS[..5].iter().enumerate() {
                map.insert(format!("{name}_ios"), json!(span.ios[kind]));
                map.insert(format!("{name}_bytes"), json!(span.bytes[kind]));
            }
            map.insert("working_set_bytes".to_owned(), json!(span.working_set_bytes));
            map.insert("since_start_bytes".to_owned(), json!(span.since_start_bytes));
            Value::Object(map)
        };
        self.spans.iter().map(row).collect()
    }
}
