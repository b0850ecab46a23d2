//! A layer of the kit that panics: each of its bios completes with an error that names it, and so does each later one.

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::fault::{Kind, Stage, Status};
use platter_block::status::Item;
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::kit::{Below, Event, Frame, Layer, Stateful, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A thread that takes longer is considered hung.
const PATIENCE: Duration = Duration::from_secs(30);
const PAGE: u64 = 4096;

// What the layer does with a bio, by its page.
const PASSES: u64 = 0;
const WAITS: u64 = 1;
const SPLITS: u64 = 2;
const PANICS: u64 = 3;
const WRITES_AND_PANICS: u64 = 4;
const IS_ROUTED: u64 = 5;
const PANICS_IN_ROUTE: u64 = 6;

struct Faulty {
    never: Arc<Event>,
    /// Told when a bio begins to wait.
    waits: Mutex<Sender<()>>,
    flushes: AtomicU32,
}

impl Layer for Faulty {
    fn route(&self, _port: usize, bio: &Bio) -> Option<(usize, u64)> {
        assert!(bio.pos() / PAGE != PANICS_IN_ROUTE, "no route");
        (bio.pos() / PAGE == IS_ROUTED).then_some((0, bio.pos()))
    }
    async fn run(self: Arc<Self>, task: Task) -> Status {
        match task.pos() / PAGE {
            PASSES => task.pass(0, task.pos()).await,
            WAITS => {
                self.waits.lock().unwrap().send(()).unwrap();
                self.never.wait().await;
                Ok(())
            }
            SPLITS => {
                let parts = [0, PAGE / 2].map(|skip| task.part(skip, PAGE / 2, 0, task.pos() + skip));
                for part in parts {
                    part.await?;
                }
                Ok(())
            }
            WRITES_AND_PANICS => {
                let _part = task.part(0, PAGE, 0, task.pos());
                panic!("a part is staged");
            }
            page => panic!("page {page} is lost"),
        }
    }
    async fn flush(self: Arc<Self>, below: Below, _port: usize) -> Status {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        below.flush(0).await
    }
    fn locate(&self, _port: usize, pos: u64) -> Option<(usize, u64, u64)> {
        Some((0, pos, u64::MAX))
    }
    fn status(&self, _port: usize) -> Vec<Item> {
        vec![Item::text("flushes", self.flushes.load(Ordering::SeqCst).to_string(), "flushes that came")]
    }
}

struct Rig {
    device: Device,
    frame: Arc<Frame<Faulty>>,
    waits: std::sync::mpsc::Receiver<()>,
}

fn over(below: &Arc<dyn Backend>) -> Rig {
    let (told, waits) = channel();
    let io = Below::default();
    let layer = Faulty { never: Event::new(&io), waits: Mutex::new(told), flushes: AtomicU32::new(0) };
    let frame = Frame::new(vec![Arc::clone(below)], 1, io, Arc::new(layer)).unwrap();
    let device = Device::new(Arc::new(Stateful::new(&frame, 0, "faulty".into(), below.geometry())));
    Rig { device, frame, waits }
}

/// A disk that takes 10 ms of virtual time for each command.
fn disk(world: &Arc<World>) -> Arc<dyn Backend> {
    let model = Ideal { size: 1 << 20, latency: Span::from_millis(10), depth: 32, write_cache: false };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    Arc::new(DiskBackend::new(disk.attach("sim"), DiskSettings::default(), None).unwrap())
}

fn write(page: u64) -> Bio {
    let mut bio = Bio::write(page * PAGE, vec![7; PAGE as usize]).unwrap();
    bio.set_token(page);
    bio
}

type Outcome = Result<(), (Kind, Stage)>;

/// The token, the result and whether the memory came back, in the order of the tokens.
fn results(done: Vec<Bio>) -> Vec<(u64, Outcome, bool)> {
    let one = |mut bio: Bio| {
        let status = bio.status().map_err(|fault| (fault.kind, fault.stage));
        (
            bio.token(),
            status,
            bio.take_buffer::<Vec<u8>>().is_some_and(|buffer| buffer.len() == PAGE as usize),
        )
    };
    let mut all: Vec<_> = done.into_iter().map(one).collect();
    all.sort_by_key(|(token, ..)| *token);
    all
}

const BROKEN: Outcome = Err((Kind::Broken, Stage::Layer));

fn turn(channel: &mut Channel, pages: &[u64]) -> Vec<(u64, Outcome, bool)> {
    pages.iter().for_each(|&page| channel.submit(write(page)).unwrap());
    let mut done = Vec::new();
    channel.poll(&mut done);
    results(done)
}

/// Nothing of a layer that has panicked begins any more, and its status and facts say why.
fn refuses(rig: &Rig, cause: &str) {
    let status = rig.device.backend().managed().unwrap().status();
    let failure = status.iter().find(|item| item.name == "layer failure").map(Item::fact);
    assert_eq!(failure, Some(("layer failure", cause.to_owned())));
    assert!(rig.device.facts().contains(&("layer failure", cause.to_owned())));
    for result in [
        rig.device.write_at(&[1; 512], 0),
        rig.device.read_at(&mut [0; 512], IS_ROUTED * PAGE),
        rig.device.flush(),
    ] {
        let error = result.expect_err("the layer has panicked");
        assert_eq!((error.fault.kind, error.fault.stage), (Kind::Broken, Stage::Layer), "{error}");
        let names = format!("the layer faulty has panicked: {cause}");
        assert!(error.to_string().contains(&names), "{error}");
    }
}

#[test]
fn a_panic_ends_the_bios_of_all_lanes() {
    let world = World::new(1);
    let below = disk(&world);
    let rig = over(&below);
    let [mut first, mut second] = [8, 8].map(|bios| rig.device.channel(bios).unwrap());
    assert_eq!(turn(&mut first, &[PASSES, WAITS, SPLITS, IS_ROUTED]), []);
    assert_eq!(turn(&mut second, &[PANICS]), [(PANICS, BROKEN, true)]);
    // No device has it. The others have their memory until the disk is done with it.
    assert_eq!(turn(&mut first, &[]), [(WAITS, BROKEN, true)]);
    assert_eq!(turn(&mut first, &[WAITS]), [(WAITS, BROKEN, true)]);
    let mut done = Vec::new();
    while first.outstanding() > 0 {
        assert!(first.wait(&mut done, Some(Span::from_secs(1))) > 0, "{} stay", first.outstanding());
    }
    assert_eq!(world.clock().now().0, 10_000_000);
    // What went to the disk as it was has the disk's result.
    assert_eq!(results(done), [(PASSES, BROKEN, true), (SPLITS, BROKEN, true), (IS_ROUTED, Ok(()), true)]);
    refuses(&rig, "page 3 is lost");
}

#[test]
fn nothing_that_was_staged_goes_below() {
    let world = World::new(1);
    let below = disk(&world);
    let rig = over(&below);
    let mut channel = rig.device.channel(8).unwrap();
    // The task that was started last runs first, and has staged its bio when the other one panics.
    assert_eq!(
        turn(&mut channel, &[WRITES_AND_PANICS, PASSES]),
        [(PASSES, BROKEN, true), (WRITES_AND_PANICS, BROKEN, true)]
    );
    drop(channel);
    refuses(&rig, "a part is staged");
    let layer = Arc::clone(rig.frame.layer());
    drop(rig);
    assert_eq!(
        layer.flushes.load(Ordering::SeqCst),
        0,
        "a layer in an unknown state writes nothing at its end"
    );
    let mut page = [0; PAGE as usize];
    for at in [PASSES, WRITES_AND_PANICS] {
        Device::new(Arc::clone(&below)).read_at(&mut page, at * PAGE).unwrap();
        assert_eq!(page, [0; PAGE as usize]);
    }
}

#[test]
fn a_panic_of_one_thread_wakes_the_call_of_another() {
    for (page, cause) in [(PANICS, "page 3 is lost"), (PANICS_IN_ROUTE, "no route")] {
        let below = Device::ram(1 << 20).unwrap();
        let rig = over(below.backend());
        let (device, (ended, end)) = (rig.device.clone(), channel());
        let thread = std::thread::spawn(move || {
            let error = device.read_at(&mut [0; 512], WAITS * PAGE).expect_err("nothing ends it but a panic");
            ended.send(error).unwrap();
        });
        rig.waits.recv_timeout(PATIENCE).unwrap();
        // A synchronous call returns the panic as an error too, and does not end the process.
        let own = rig.device.read_at(&mut [0; 512], page * PAGE).expect_err("it panics");
        assert_eq!(own.fault.kind, Kind::Broken, "{own}");
        let error = end.recv_timeout(PATIENCE).expect("the waiting call ends");
        assert!(error.fault == own.fault && error.to_string().contains(cause), "{error}");
        thread.join().unwrap();
        refuses(&rig, cause);
    }
}

#[test]
fn a_panic_of_the_layers_own_work_ends_it() {
    let below = Device::ram(1 << 20).unwrap();
    let rig = over(below.backend());
    let status = rig.frame.block_on(async { panic!("while it is opened") });
    assert_eq!(status.unwrap_err().kind, Kind::Broken);
    assert_eq!(rig.frame.block_on(async { Ok(()) }).unwrap_err().kind, Kind::Broken);
    let state = Arc::new(());
    let kept = Arc::clone(&state);
    rig.frame.spawn(async move {
        drop(kept);
        Ok(())
    });
    assert_eq!(Arc::strong_count(&state), 1, "work that never runs keeps nothing");
    refuses(&rig, "while it is opened");
}

/// A device below that panics unwinds through the layer. Bios that the layer has end; the device may have lost the others.
#[test]
fn a_panic_below_ends_what_no_device_has() {
    use platter_block::trace::{Event, Sink};
    struct Bomb(Arc<AtomicBool>);
    impl Sink for Bomb {
        fn event(&mut self, _event: &Event) {
            assert!(!self.0.load(Ordering::SeqCst), "the sink breaks down");
        }
    }
    let below = Device::ram(1 << 20).unwrap();
    let armed = Arc::new(AtomicBool::new(false));
    let maker = Arc::clone(&armed);
    below.backend().trace(Some(Arc::new(move || Box::new(Bomb(Arc::clone(&maker))) as Box<dyn Sink>)));
    let rig = over(below.backend());
    let [mut first, mut second] = [8, 8].map(|bios| rig.device.channel(bios).unwrap());
    assert_eq!(turn(&mut first, &[WAITS]), []);
    armed.store(true, Ordering::SeqCst);
    let panicked = catch_unwind(AssertUnwindSafe(|| turn(&mut second, &[PASSES])));
    assert!(panicked.is_err());
    armed.store(false, Ordering::SeqCst);
    assert_eq!(turn(&mut first, &[]), [(WAITS, BROKEN, true)]);
    assert_eq!(turn(&mut first, &[WAITS]), [(WAITS, BROKEN, true)]);
    refuses(&rig, "a panic of a device below");
}
