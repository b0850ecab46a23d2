//! Against a model of the driver's control device.

use super::super::abi::{DeviceInfo, Params, attribute, feature, state};
use super::*;
use std::collections::BTreeMap;

const ALL: u64 =
    feature::USER_RECOVERY | feature::RECOVERY_REISSUE | feature::USER_COPY | feature::UPDATE_SIZE;

/// The driver, as far as its control device shows it.
#[derive(Default)]
struct Model {
    features: Option<u64>,
    devices: BTreeMap<u32, (DeviceInfo, Option<Params>)>,
    /// How often a recovery is refused because the old process has the device open.
    busy: u32,
    /// How many questions it takes until the kernel has noticed that a server is dead.
    unnoticed: u32,
    refuses_params: bool,
}

impl Model {
    /// A server of this process is killed.
    fn kill(&mut self, id: u32) {
        self.devices.get_mut(&id).unwrap().0.state = state::QUIESCED;
    }
}

impl Control for Model {
    fn features(&mut self) -> Result<u64, Errno> {
        self.features.ok_or(Errno::NODEV)
    }

    fn add(&mut self, wanted: &DeviceInfo) -> Result<DeviceInfo, Errno> {
        let free = (0..).find(|id| !self.devices.contains_key(id)).unwrap();
        let id = if wanted.id == ANY { free } else { wanted.id };
        if self.devices.contains_key(&id) {
            return Err(Errno::EXIST);
        }
        let info = DeviceInfo { id, pid: -1, queues: wanted.queues.min(2), ..wanted.clone() };
        self.devices.insert(id, (info.clone(), None));
        Ok(info)
    }

    fn info(&mut self, id: u32) -> Result<DeviceInfo, Errno> {
        let info = &mut self.devices.get_mut(&id).ok_or(Errno::NODEV)?.0;
        if info.state == state::LIVE && self.unnoticed > 0 {
            self.unnoticed -= 1;
            if self.unnoticed == 0 {
                info.state = state::QUIESCED;
            }
        }
        Ok(info.clone())
    }

    fn set_params(&mut self, id: u32, params: &Params) -> Result<(), Errno> {
        let device = self.devices.get_mut(&id).ok_or(Errno::NODEV)?;
        if self.refuses_params || params.max_sectors > device.0.max_io_bytes / 512 {
            return Err(Errno::INVAL);
        }
        device.1 = Some(params.clone());
        Ok(())
    }

    fn params(&mut self, id: u32) -> Result<Params, Errno> {
        self.devices.get(&id).and_then(|device| device.1.clone()).ok_or(Errno::NODEV)
    }

    fn command(&mut self, command: Command, id: u32, value: u64) -> Result<(), Errno> {
        let info = &mut self.devices.get_mut(&id).ok_or(Errno::NODEV)?.0;
        match command {
            Command::Start => (info.state, info.pid) = (state::LIVE, value as i32),
            Command::Stop => info.state = state::DEAD,
            Command::Delete => drop(self.devices.remove(&id)),
            Command::StartRecovery if info.state != state::QUIESCED || self.busy > 0 => {
                self.busy = self.busy.saturating_sub(1);
                return Err(Errno::BUSY);
            }
            Command::StartRecovery | Command::UpdateSize => {}
            Command::EndRecovery => (info.state, info.pid) = (state::LIVE, value as i32),
        }
        Ok(())
    }
}

struct Around {
    alive: Vec<i32>,
    pauses: u32,
}

impl Surroundings for Around {
    fn is_alive(&self, pid: i32) -> bool {
        self.alive.contains(&pid)
    }

    fn pause(&mut self) -> bool {
        self.pauses = self.pauses.saturating_sub(1);
        self.pauses > 0
    }
}

fn wanted(id: Option<u32>) -> Wanted {
    let params = Params { logical_shift: 9, sectors: 4096, max_sectors: 2048, ..Params::default() };
    let identity = identity("a.img");
    Wanted { id, recover: false, buffers: false, queues: 4, depth: 64, identity, params }
}

fn model() -> Model {
    Model { features: Some(ALL), ..Model::default() }
}

fn alone() -> Around {
    Around { alive: Vec::new(), pauses: 5 }
}

/// A device 0 whose server was process 9, which is dead.
fn killed() -> Model {
    let mut model = model();
    let made = attach(&mut model, &wanted(Some(0)), &mut alone()).unwrap();
    assert!(!made.recovered);
    model.command(Command::Start, 0, 9).unwrap();
    model.kill(0);
    model
}

#[test]
fn a_device_has_what_the_driver_can_do() {
    let mut driver = model();
    let made = attach(&mut driver, &wanted(None), &mut alone()).unwrap();
    assert_eq!((made.info.id, made.info.queues, made.info.flags), (0, 2, ALL));
    let buffers = Wanted { buffers: true, ..wanted(None) };
    let made = attach(&mut driver, &buffers, &mut alone()).unwrap();
    assert_eq!((made.info.id, made.info.flags), (1, ALL & !feature::USER_COPY));
    let mut old = Model::default();
    let made = attach(&mut old, &wanted(None), &mut alone()).unwrap();
    assert_eq!(made.info.flags, feature::USER_RECOVERY | feature::RECOVERY_REISSUE);
}

#[test]
fn a_device_that_cannot_be_described_does_not_stay() {
    let mut driver = Model { refuses_params: true, ..model() };
    let error = attach(&mut driver, &wanted(None), &mut alone()).unwrap_err();
    assert!(!error.is_usage(), "{error}");
    assert!(driver.devices.is_empty());
}

#[test]
fn what_a_dead_server_left_is_taken_over() {
    let mut driver = killed();
    driver.busy = 3;
    let taken = attach(&mut driver, &wanted(Some(0)), &mut alone()).unwrap();
    assert!(taken.recovered);
    // It has the shape that it had.
    assert_eq!((taken.info.queues, taken.info.depth), (2, 64));
    let mut stays_busy = killed();
    stays_busy.busy = 100;
    let error = attach(&mut stays_busy, &wanted(Some(0)), &mut alone()).unwrap_err();
    assert!(error.to_string().contains("cannot take over"), "{error}");
}

#[test]
fn a_server_that_the_kernel_still_buries_is_waited_for() {
    let mut driver = model();
    attach(&mut driver, &wanted(Some(0)), &mut alone()).unwrap();
    driver.command(Command::Start, 0, 9).unwrap();
    let living = &mut Around { alive: vec![9], pauses: 5 };
    let error = attach(&mut driver, &wanted(Some(0)), living).unwrap_err();
    assert!(error.to_string().contains("served by process 9"), "{error}");
    driver.unnoticed = 3;
    assert!(attach(&mut driver, &wanted(Some(0)), &mut alone()).unwrap().recovered);
}

#[test]
fn another_disk_is_not_put_under_a_block_device() {
    let refused = |change: &dyn Fn(&mut Wanted)| {
        let mut other = wanted(Some(0));
        change(&mut other);
        let mut driver = killed();
        let result = attach(&mut driver, &other, &mut alone());
        assert_eq!(driver.devices[&0].0.state, state::QUIESCED);
        result.unwrap_err().to_string()
    };
    let other_spec = |wanted: &mut Wanted| wanted.identity = identity("b.img");
    assert!(refused(&other_spec).contains("another spec; \"0,recover\""));
    for force in [false, true] {
        let sized = refused(&|wanted| (wanted.recover, wanted.params.sectors) = (force, 2048));
        assert!(sized.contains("it has 2097152 bytes, and the device only 1048576"), "{sized}");
    }
    let mut grown = wanted(Some(0));
    grown.params.sectors = 8192;
    let taken = attach(&mut killed(), &grown, &mut alone()).unwrap();
    assert!(taken.recovered && taken.has_grown);
    assert!(refused(&|wanted| wanted.params.logical_shift = 12).contains("blocks have 512 bytes"));
    for attribute in [attribute::READ_ONLY, attribute::VOLATILE_CACHE] {
        assert!(refused(&|wanted| wanted.params.attributes = attribute).contains("it was writable"));
    }
    let forced = Wanted { identity: identity("b.img"), recover: true, ..wanted(Some(0)) };
    assert!(attach(&mut killed(), &forced, &mut alone()).unwrap().recovered);
}

#[test]
fn devices_of_other_programs_are_left_alone() {
    let mut driver = killed();
    driver.devices.get_mut(&0).unwrap().0.own = 0;
    for recover in [false, true] {
        let wanted = Wanted { recover, ..wanted(Some(0)) };
        let error = attach(&mut driver, &wanted, &mut alone()).unwrap_err();
        assert!(error.to_string().contains("is not of Platter"), "{error}");
    }
    let absent = Wanted { recover: true, ..wanted(Some(5)) };
    let error = attach(&mut driver, &absent, &mut alone()).unwrap_err();
    assert!(error.to_string().contains("no ublk device 5"), "{error}");
}

#[test]
fn remains_of_a_start_that_failed_are_removed() {
    let mut driver = model();
    attach(&mut driver, &Wanted { depth: 7, ..wanted(Some(0)) }, &mut alone()).unwrap();
    let made = attach(&mut driver, &wanted(Some(0)), &mut alone()).unwrap();
    assert_eq!((made.info.depth, made.recovered), (64, false));
}

#[test]
fn identities_differ_and_are_marked() {
    assert_ne!(identity("a.img"), identity("b.img"));
    assert_eq!(identity("a.img") >> 48, 0x504c);
    assert_eq!(identity("") >> 48, 0x504c);
}
