//! The disks of `--on`: device specs, each reopened with the settings of every rung.

use platter::registry::{self, Access, Shape};
use platter::spec::Spec;
pub(in crate::verbs) use platter_bench::dm::OpenDisk;
use platter_bench::dm::{self, Disks, DmError};
use platter_block::queue::PlugSettings;
use platter_disk::disk_backend::{DiskSettings, LockScope};

/// The arguments that a rung decides.
const OF_THE_RUNG: &[&str] =
    &["elevator", "merges", "plug", "unplug_thresh", "unplug_delay", "caller_plug", "lock"];

/// The disks that the specs name.
pub(in crate::verbs) fn disks(specs: &[String]) -> Result<Disks, DmError> {
    let parsed = specs.iter().map(|text| check(text)).collect::<Result<Vec<_>, _>>()?;
    let name = parsed.first().map_or("", Spec::name);
    let on = if parsed.iter().all(|spec| spec.name() == name) { name } else { "mixed" }.to_owned();
    let about = parsed.iter().map(Spec::to_string).collect::<Vec<_>>().join(", ");
    let open = parsed.into_iter().enumerate().map(|(number, spec)| open(spec, number));
    Ok(Disks::given(on, about, open.collect::<Result<_, _>>()?))
}

/// The disk that a spec names.
pub(in crate::verbs) fn disk(text: &str, number: usize) -> Result<OpenDisk, DmError> {
    open(check(text)?, number)
}

/// Checks a spec of a disk: it must not set parameters that the rung sets.
fn check(text: &str) -> Result<Spec, DmError> {
    let spec = registry::parse(text).map_err(|error| DmError::Option(error.to_string()))?;
    let refuse = |message: String| Err(DmError::Option(spec.reject(message).to_string()));
    if registry::find(spec.name()).is_some_and(|row| row.shape != Shape::Disk) {
        return refuse(format!(
            "`{}` has devices below it; the rungs of the ladder take disks only",
            spec.name()
        ));
    }
    for arg in spec.args() {
        if let Some(name) = arg.name().filter(|name| OF_THE_RUNG.contains(name)) {
            return refuse(format!("each rung sets `{name}` itself; leave it out"));
        }
        if spec.name() == "ram" && arg.name().is_some_and(|name| name != "size") {
            return refuse("the benchmark creates and fills disks in memory; give only the size".to_owned());
        }
    }
    Ok(spec)
}

fn open(spec: Spec, number: usize) -> Result<OpenDisk, DmError> {
    if spec.name() == "ram" {
        // Filled once: memory that was never written to is not read like other memory.
        let size = registry::open_spec(&spec, Access::read()).map_err(failed)?.size();
        return dm::ram_disk(size, number);
    }
    Ok(Box::new(move |settings, elevator| {
        let text = with_settings(&spec, &settings, elevator.as_ref().map_or("none", |e| e.name()));
        registry::open(&text, Access::read()).map_err(failed)
    }))
}

fn failed(error: registry::OpenError) -> DmError {
    match error.is_usage() {
        true => DmError::Option(error.to_string()),
        false => DmError::Open(error.to_string()),
    }
}

/// The spec with a rung's settings, as a spec.
fn with_settings(spec: &Spec, settings: &DiskSettings, elevator: &str) -> String {
    let text = spec.to_string();
    let mut text = text.strip_suffix(')').unwrap_or(&text).to_owned();
    let on = |switch: bool| if switch { "on" } else { "off" };
    text += &format!(", elevator={elevator}, merges={}", on(settings.queue.merges));
    text += &format!(", caller_plug={}", on(settings.caller_plug));
    match settings.queue.plug {
        Some(PlugSettings { threshold, delay }) if elevator != "none" => {
            // The most that a spec can say.
            let (threshold, delay) = (threshold.min(16_384), delay.as_millis().min(10_000));
            text += &format!(", unplug_thresh={threshold}, unplug_delay={delay}ms");
        }
        _ => text += &format!(", plug={}", on(settings.queue.plug.is_some())),
    }
    match &settings.lock {
        LockScope::Queue => {}
        LockScope::All => text += ", lock=all",
        LockScope::Adapter(name) => text += &format!(", lock=\"{name}\""),
    }
    text + ")"
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_bench::ladder::{Ladder, TABLE};

    #[test]
    fn a_rungs_settings_reach_the_disk() {
        let disk = open(check("null(1G, depth=7)").unwrap(), 0).unwrap();
        for row in TABLE {
            let ladder = Ladder::open(row.switches, DiskSettings::default(), &disk).unwrap();
            let facts = ladder.device().facts();
            let fact = |name| facts.iter().find(|f| f.0 == name).map(|f| f.1.as_str());
            assert_eq!(fact("elevator"), Some(if row.name == "bio" { "none" } else { "noop" }));
            assert_eq!(fact("depth"), Some("7"));
            let before = ladder.counters();
            let mut memory = vec![0; 3 * 4096];
            let skip = memory.as_ptr().align_offset(4096);
            ladder.handle().unwrap().read_at(&mut memory[skip..skip + 8192], 0).unwrap();
            let spent = ladder.counters().since(&before);
            let bios = match row.name {
                "SBIR" | "SBIRV" | "SBIRVP" => 2,
                "bio" => 1,
                _ => 16,
            };
            assert_eq!((spent.bios, spent.dispatches), (bios, 1), "{}", row.name);
        }
    }

    #[test]
    fn what_is_the_rungs_is_refused() {
        let refused = |text: &str| check(text).unwrap_err().to_string();
        assert!(refused("null(1G, elevator=noop)").contains("each rung sets `elevator` itself"));
        assert!(refused("ram(1G, depth=2)").contains("give only the size"));
        assert!(refused("nul(1G)").contains("nul"));
        assert!(check("/dev/null").is_ok());
    }
}
