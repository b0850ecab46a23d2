//! The status, parameters and events of every layer of the table, and of the snapshot and the cache in particular.

use crate::mirrors;
use platter_block::backend::Backend;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::params::Unit;
use platter_block::status::{Item, LayerStatus, Value};
use platter_disk::device::Device;
use platter_stack::snapshot::{Settings, Snapshot};
use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

const SIZE: u64 = 1 << 20;

/// Work that takes longer is considered hung.
const PATIENCE: Duration = Duration::from_secs(30);

fn ram(size: u64) -> Arc<dyn Backend> {
    Arc::clone(Device::ram(size).unwrap().backend())
}

fn make(name: &str, members: Vec<Arc<dyn Backend>>) -> Arc<dyn Backend> {
    platter_cache::by_name(name).unwrap().make(&[], members).unwrap()
}

/// A layer of each kind, with the smallest number of devices below.
fn over(name: &str) -> Arc<dyn Backend> {
    let row = platter_cache::by_name(name).unwrap();
    let members: Vec<_> = (0..*row.members.start()).map(|_| ram(SIZE + mirrors::FRONT)).collect();
    if name == "raid1" {
        mirrors::make(&members);
    }
    if name == "snapshot-merge" {
        drop(make("snapshot", members.clone()));
    }
    make(name, members)
}

fn check_items(name: &str, layer: &LayerStatus) {
    let mut names = BTreeSet::new();
    for item in &layer.items {
        let Item { name: own, value, unit, help, .. } = item;
        let what = format!("{name}: {own}");
        assert!(names.insert(*own), "{what}: twice");
        assert!(own.chars().all(|c| c.is_ascii_lowercase() || c == ' ' || c == '-'), "{what}: its name");
        assert!(!own.is_empty() && own.trim() == *own, "{what}: its name");
        assert!(!help.is_empty() && !help.ends_with('.'), "{what}: its help");
        let fits = match value {
            Value::Number(_) => !matches!(unit, Unit::Switch | Unit::Word),
            Value::Switch(_) => *unit == Unit::Switch,
            Value::Text(text) => *unit == Unit::Word && !text.is_empty(),
            _ => false,
        };
        assert!(fits, "{what}: {value:?} in {unit}");
    }
}

fn check_params(name: &str, device: &Arc<dyn Backend>) {
    let table = platter_cache::by_name(name).unwrap().params;
    let own = device.managed().unwrap();
    let value_of = |name: &str| {
        own.params().into_iter().find(|(param, _)| param.name == name).map(|(_, value)| value).unwrap()
    };
    for (param, before) in own.params() {
        let what = format!("{name}: {}", param.name);
        let row = table.iter().find(|row| row.name == param.name);
        let row = row.unwrap_or_else(|| panic!("{what} is no parameter of the table"));
        assert_eq!((row.unit, row.help), (param.unit, param.help), "{what}");
        // A device that is open may allow less.
        assert!(row.min <= param.min && param.max <= row.max, "{what}: {} to {}", param.min, param.max);
        assert!((param.min..=param.max).contains(&before), "{what}={before}");
        for value in [param.max, param.min, before] {
            match device.set_layer_param(None, param.name, value) {
                Ok(()) => assert_eq!(value_of(param.name), value, "{what}"),
                // It contradicts another parameter.
                Err(error) => assert!(error.to_string().contains(param.name) && value != before, "{error}"),
            }
        }
        for value in [param.min.checked_sub(1), param.max.checked_add(1)].into_iter().flatten() {
            let error = device.set_layer_param(None, param.name, value).unwrap_err().to_string();
            assert!(error.contains(param.name) && error.contains(&value.to_string()), "{error}");
            assert_eq!(value_of(param.name), before, "{what}");
        }
    }
    let error = device.set_layer_param(None, "no-such", 1).unwrap_err().to_string();
    let known = own.params().iter().all(|(param, _)| error.contains(param.name));
    assert!(known && (own.params().is_empty() || error.contains("no-such")), "{error}");
}

#[test]
fn every_layer_states_its_status_and_takes_its_parameters() {
    let mut with_status = BTreeSet::new();
    for row in platter_cache::layers() {
        let device = over(row.name);
        let layers = device.layers();
        assert_eq!(layers.len(), usize::from(device.managed().is_some()), "{}", row.name);
        let Some(layer) = layers.first() else {
            assert!(device.set_layer_param(None, "any", 1).is_err());
            continue;
        };
        with_status.insert(row.name);
        assert_eq!(layer.device, device.name());
        check_items(row.name, layer);
        // What is reported as text is the same.
        let facts = device.facts();
        for item in layer.items.iter().filter(|item| item.name != "merge done" && item.name != "merge state")
        {
            let fact = facts.iter().find(|(name, _)| *name == item.name);
            assert_eq!(fact, Some(&item.fact()), "{}", row.name);
        }
        check_params(row.name, &device);
    }
    let expected = ["cache", "multipath", "raid1", "snapshot", "snapshot-merge", "snapshot-origin"];
    assert!(with_status.iter().eq(expected.iter()), "{with_status:?}");
}

#[test]
fn a_stack_has_the_status_of_all_its_layers() {
    let snapshot = make("snapshot", vec![ram(SIZE), ram(2 * SIZE)]);
    let device = Device::new(make("cache", vec![Arc::clone(&snapshot)]));
    device.write_at(&[1; 8192], 0).unwrap();
    let layers = device.layers();
    assert_eq!(layers.len(), 2);
    assert_eq!((layers[0].number("dirty pages"), layers[0].number("dirty bytes")), (Some(2), Some(8192)));
    assert_eq!(
        (layers[1].text("snapshot"), layers[1].number("snapshot store used")),
        (Some("valid"), Some(0))
    );
    device.flush().unwrap();
    let layers = device.layers();
    assert_eq!(
        (layers[0].number("dirty bytes"), layers[1].number("snapshot chunks kept")),
        (Some(0), Some(1))
    );
    assert_eq!(layers[1].number("snapshot store used"), Some(64 << 10));
    // A parameter is set where it is, or refused by the names of those that there are.
    device.set_layer_param(None, "dirty", 50).unwrap();
    let error = device.set_layer_param(None, "rate", 1).unwrap_err().to_string();
    assert!(error.contains("\"rate\"") && error.contains("background, dirty, expire"), "{error}");
    let error = device.set_layer_param(Some(&snapshot.name()), "dirty", 50).unwrap_err().to_string();
    assert!(error.contains(&*snapshot.name()), "{error}");
    let error = device.set_layer_param(None, "background", 51).unwrap_err().to_string();
    assert!(error.contains("background=51 is more than dirty=50"), "{error}");
}

#[test]
fn a_cache_states_the_words_that_it_was_opened_with() {
    let row = platter_cache::by_name("cache").unwrap();
    for name in ["write", "prefault"] {
        let param = row.params.iter().find(|param| param.name == name).unwrap();
        for (value, word) in (0..).zip(param.words) {
            let cache = row.make(&[("size", 1 << 20), (name, value)], vec![ram(SIZE)]).unwrap();
            let items = cache.managed().unwrap().status();
            let item = items.iter().find(|item| item.name == name).unwrap();
            assert_eq!((item.value.to_string().as_str(), item.help), (*word, param.help), "{name}");
        }
    }
}

/// The limit of dirty pages holds as soon as it is set.
#[test]
fn a_cache_takes_its_limits_while_it_is_open() {
    let row = platter_cache::by_name("cache").unwrap();
    let settings = [("size", 1 << 20), ("background", 50), ("dirty", 100)];
    let device = Device::new(row.make(&settings, vec![ram(8 << 20)]).unwrap());
    let write = |pages: std::ops::Range<u64>| {
        pages.for_each(|page| device.write_at(&[1; 4096], page * 4096).unwrap())
    };
    let dirty = || device.layers()[0].number("dirty pages").unwrap();
    write(0..100);
    assert_eq!(dirty(), 100);
    device.set_layer_param(None, "background", 0).unwrap();
    device.set_layer_param(None, "dirty", 10).unwrap();
    write(1000..1001);
    assert!(dirty() <= 26, "{}", dirty());
}

#[derive(Default)]
struct Notes(Mutex<Vec<DeviceEvent>>);

impl Watcher for Notes {
    fn event(&self, event: &DeviceEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Notes {
    fn on(device: &Arc<dyn Backend>) -> Arc<Notes> {
        let notes = Arc::new(Notes::default());
        let weak = Arc::downgrade(&notes);
        device.watch(weak as Weak<dyn Watcher>);
        notes
    }

    /// The items of the layer itself.
    fn items(&self) -> Vec<(&'static str, String)> {
        let events = self.0.lock().unwrap();
        let items = events.iter().filter_map(|event| match event {
            DeviceEvent::Status(item) => Some(item.fact()),
            _ => None,
        });
        items.collect()
    }
}

#[test]
fn watchers_learn_that_a_snapshot_is_invalid() {
    let mut settings = Settings::default();
    settings.chunk = 4096;
    // Room for two chunks.
    let both = Snapshot::open(ram(SIZE), ram(8192 + 4096 + 2 * 4096), settings).unwrap();
    let (above, view) = (Notes::on(&both.origin), Notes::on(&both.view));
    let cache = make("cache", vec![Arc::clone(&both.view)]);
    let over = Notes::on(&cache);
    let live = Device::new(Arc::clone(&both.origin));
    live.write_at(&[1; 8192], 0).unwrap();
    assert_eq!(above.items(), []);
    live.write_at(&[1; 4096], 65536).unwrap();
    let expected = [("snapshot", "invalid".to_string())];
    assert_eq!((above.items(), view.items()), (expected.to_vec(), expected.to_vec()));
    let layers = live.layers();
    assert_eq!(layers[0].text("snapshot failure"), Some("its store is full"));
    let told = over.0.lock().unwrap();
    assert!(
        matches!(&told[..], [DeviceEvent::Below { event, .. }] if matches!(**event, DeviceEvent::Status(_)))
    );
}

/// An origin, and a store that has all of its chunks.
fn origin_and_store() -> [Arc<dyn Backend>; 2] {
    let both = [ram(SIZE), ram(2 * SIZE)];
    let view = Device::new(make("snapshot", both.to_vec()));
    view.write_at(&vec![6; SIZE as usize], 0).unwrap();
    view.close().unwrap();
    both
}

#[test]
fn a_merge_is_paused_and_paced_while_it_runs() {
    let row = platter_cache::by_name("snapshot-merge").unwrap();
    let backend = row.make(&[("pause", 1), ("rate", 1)], origin_and_store().to_vec()).unwrap();
    let notes = Notes::on(&backend);
    let device = Device::new(backend);
    let layer = || device.layers().swap_remove(0);
    device.read_at(&mut [0; 512], 0).unwrap();
    assert_eq!((layer().text("snapshot"), layer().text("merge state")), (Some("merging"), Some("paused")));
    assert_eq!(layer().number("merge done"), Some(0));
    device.set_layer_param(None, "rate", 0).unwrap();
    device.set_layer_param(None, "pause", 0).unwrap();
    while layer().text("merge state") != Some("done") {
        device.read_at(&mut [0; 512], 0).unwrap();
    }
    assert_eq!((layer().number("merge done"), layer().number("merge total")), (Some(SIZE), Some(SIZE)));
    assert_eq!(layer().text("snapshot"), Some("merged"));
    device.flush().unwrap();
    // The thread that saw the end tells it, which need not be this one.
    while notes.items().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(notes.items(), [("merge state", "done".to_string())]);
}

/// Tells a test of each item that has changed.
struct Told(Sender<Item>);

impl Watcher for Told {
    fn event(&self, event: &DeviceEvent) {
        if let DeviceEvent::Status(item) = event {
            // The test may have failed.
            let _ = self.0.send(item.clone());
        }
    }
}

/// No lane of the device is run meanwhile but by the service thread, which is rung.
#[test]
fn a_merge_that_is_resumed_goes_on_without_io() {
    let ways: [fn(&Snapshot, &Device); 2] =
        [|merge, _| merge.pause(false), |_, device| device.set_layer_param(None, "pause", 0).unwrap()];
    for resume in ways {
        let [origin, store] = origin_and_store();
        let merge = Snapshot::merge(origin, store, false, 0).unwrap();
        merge.pause(true);
        let (tell, told) = channel();
        let watcher = Arc::new(Told(tell));
        let weak = Arc::downgrade(&watcher);
        merge.view.watch(weak as Weak<dyn Watcher>);
        let device = Device::new(Arc::clone(&merge.view));
        // When this returns, the merge has begun and waits.
        device.read_at(&mut [0; 512], 0).unwrap();
        let state = || device.layers()[0].text("merge state").map(str::to_owned);
        assert_eq!((merge.progress().done, state().as_deref()), (0, Some("paused")));
        resume(&merge, &device);
        told.recv_timeout(PATIENCE).expect("the merge ends without I/O");
        assert_eq!((merge.progress().done, state().as_deref()), (SIZE, Some("done")));
    }
}
