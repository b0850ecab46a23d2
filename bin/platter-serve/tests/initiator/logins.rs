//! Looking for targets, logging in, and targets that are away.

use crate::between::{Fate, Relay};
use crate::kinds::{SIZE, Serving, TARGET, connect};
use crate::tgt::{NAME, Tgt};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_remote::iscsi::client::{IscsiDisk, IscsiError, IscsiOptions, Portal, Url, luns, targets, unit};
use platter_remote::iscsi::wire::opcode;
use platter_serve::chap::Chap;
use platter_serve::export::Options;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tempfile::NamedTempFile;

fn open(url: &str, options: IscsiOptions) -> Result<IscsiDisk, IscsiError> {
    IscsiDisk::open(Url::parse(url, |_| None).unwrap(), options)
}

/// Why a disk cannot be opened; `None`, after saying so, where libiscsi is not installed.
fn refused(url: &str, options: IscsiOptions) -> Option<String> {
    match open(url, options).map(drop).unwrap_err() {
        IscsiError::Library(why) => {
            println!("skipped: {why}");
            None
        }
        error => Some(error.to_string()),
    }
}

#[test]
fn targets_and_units_are_found() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let portal = Portal::parse(serving.address()).unwrap();
    let found = match targets(&portal, None, &IscsiOptions::default()) {
        Err(IscsiError::Library(why)) => return println!("skipped: {why}"),
        found => found.unwrap(),
    };
    assert_eq!(
        (found[0].name.as_str(), &found[0].portals),
        (TARGET, &vec![format!("{},1", serving.address())])
    );
    let url = Url::parse(&format!("iscsi://{portal}/{TARGET}/9"), |_| None).unwrap();
    assert_eq!(luns(&url, &IscsiOptions::default()).unwrap(), [0]);
    let found = unit(&url.with_lun(0), &IscsiOptions::default()).unwrap();
    assert_eq!((found.size, found.block, found.vendor.as_str()), (SIZE, 512, "PLATTER"));
    assert!(
        matches!(unit(&url, &IscsiOptions::default()), Err(IscsiError::Unfit(why)) if why.contains("no such"))
    );
}

#[test]
fn what_is_wrong_with_a_login_is_named() {
    let mut options = Options::default();
    options.iscsi.chap = Some(Chap::new("ann", "a long secret").unwrap());
    let serving = Serving::with(Device::ram(SIZE).unwrap(), &options);
    let address = serving.address();
    for (url, parts) in [
        (format!("iscsi://{address}/{TARGET}/0"), ["refuses the login", "iscsi://USER%SECRET@HOST"]),
        (
            format!("iscsi://ann%another secret@{address}/{TARGET}/0"),
            ["refuses the login", "LIBISCSI_CHAP_PASSWORD"],
        ),
        (
            format!("iscsi://ann%a long secret@{address}/{TARGET}x/0"),
            ["Target not found", "platter iscsi discover"],
        ),
        (
            format!("iscsi://ann%a long secret@{address}/{TARGET}/7"),
            ["no such logical unit", "platter iscsi discover"],
        ),
    ] {
        let Some(why) = refused(&url, IscsiOptions::default()) else { return };
        for part in parts {
            assert!(why.contains(part), "{url}: {part}: {why}");
        }
        assert!(!why.contains("a long secret"), "{why}");
    }
    let url = format!("iscsi://ann%a long secret@{address}/{TARGET}/0");
    let device = connect(&url, "noop", IscsiOptions::default()).unwrap();
    assert!(!device.name().contains("secret"), "{}", device.name());
    device.write_at(&[1; 512], 0).unwrap();
}

#[test]
fn tgt_and_the_initiator_show_each_other_who_they_are() {
    let accounts = [("ann", "secretofann", false), ("tgt", "secretoftgt", true)];
    let Some(tgt) = Tgt::start(1 << 20, &accounts) else { return };
    let url = |query: &str| format!("iscsi://ann%secretofann@{}/{NAME}/1{query}", tgt.address);
    let right = url("?target_user=tgt&target_password=secretoftgt");
    let Some(device) = connect(&right, "noop", IscsiOptions::default()) else { return };
    device.write_at(&[1; 512], 0).unwrap();
    assert!(device.facts().contains(&("authentication", "mutual CHAP".to_owned())));
    let why =
        refused(&url("?target_user=tgt&target_password=secretofanother"), IscsiOptions::default()).unwrap();
    assert!(why.contains("refuses the login"), "{why}");
}

#[test]
fn a_target_that_is_away_or_silent_is_waited_for_no_longer_than_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("iscsi://{}/{TARGET}/0", listener.local_addr().unwrap());
    let options = IscsiOptions::default().with_connect_timeout(Span::from_millis(50));
    let begin = Instant::now();
    let Some(why) = refused(&url, options.clone()) else { return };
    assert!(why.contains("does not answer"), "{why}");
    assert!(begin.elapsed().as_millis() >= 50);
    drop(listener);
    let why = refused(&url, options).unwrap();
    assert!(why.contains("no connection to the target"), "{why}");
    let nameless = refused("iscsi://host.invalid/t/0", IscsiOptions::default()).unwrap();
    assert!(nameless.contains("the host is not known"), "{nameless}");
    let options = IscsiOptions::default().with_initiator("ann".to_owned());
    assert!(refused(&url, options).unwrap().contains("no name of an initiator"));
}

#[test]
fn a_target_that_comes_back_is_used_again() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let relay =
        Relay::new(
            serving.address(),
            move |_| {
                if away.load(Ordering::SeqCst) { Fate::Cut(0) } else { Fate::Pass }
            },
        );
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let options = IscsiOptions::default().with_reconnect(Span::from_millis(30));
    let Some(device) = connect(&url, "noop", options) else { return };
    device.write_at(&[1; 512], 0).unwrap();
    is_away.store(true, Ordering::SeqCst);
    // Whether it was carried out is not known, and it does not count as cancelled.
    let error = device.write_at(&[2; 512], 512).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Io, "{error}");
    let error = device.read_at(&mut [0; 512], 0).unwrap_err();
    assert!(
        matches!(error.fault.kind, Kind::Gone | Kind::Io) && error.to_string().contains("no session"),
        "{error}"
    );
    is_away.store(false, Ordering::SeqCst);
    let mut data = [0; 512];
    // Between two attempts I/O fails at once.
    while device.read_at(&mut data, 0).is_err() {
        std::thread::yield_now();
    }
    device.write_at(&[3; 512], 512).unwrap();
    assert_eq!(data, [1; 512]);
}

#[test]
fn another_disk_in_its_place_is_not_used() {
    let (one, other) =
        (Serving::new(Device::ram(SIZE).unwrap()), Serving::new(Device::ram(2 * SIZE).unwrap()));
    // The relay's target changes with the connection, as an address that moves does.
    let (first, second) = (one.address().to_owned(), other.address().to_owned());
    let relay =
        Relay::choosing(move |connection| if connection == 0 { first.clone() } else { second.clone() });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    device.write_at(&[1; 512], 0).unwrap();
    relay.cut();
    let error = device.write_at(&[2; 512], 0).unwrap_err();
    assert!(error.to_string().contains("another disk: its size was 1048576 bytes"), "{error}");
    assert!(device.write_at(&[2; 512], 0).is_err());
}

#[test]
fn a_flush_tells_of_what_a_lost_session_may_have_cost() {
    // A disk in memory has no cache that could be lost.
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(SIZE).unwrap();
    let serving = Serving::new(Device::open(file.path(), DiskOptions::read_write()).unwrap());
    let relay = Relay::new(serving.address(), |_| Fate::Pass);
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    device.write_at(&[1; 512], 0).unwrap();
    device.flush().unwrap();
    relay.cut();
    device.flush().unwrap();
    device.write_at(&[2; 512], 0).unwrap();
    relay.cut();
    assert!(device.flush().unwrap_err().to_string().contains("may have lost earlier writes"));
    device.acknowledge_flush_failure();
    device.flush().unwrap();
}

#[test]
fn the_session_ends_with_a_farewell() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let relay = Relay::new(serving.address(), move |unit| {
        if unit.header().opcode() == opcode::LOGOUT_RESPONSE {
            let _ = tell.send(());
        }
        Fate::Pass
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    device.write_at(&[1; 512], 0).unwrap();
    drop(device);
    told.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
}

/// From 256 on, numbers of units are written in another way.
#[test]
fn units_of_tgt_with_large_numbers_are_listed_and_opened() {
    let Some(tgt) = Tgt::start(SIZE, &[]) else { return };
    tgt.add_unit(300);
    let url = Url::parse(&format!("iscsi://{}/{}", tgt.address, tgt.path()), |_| None).unwrap();
    let found = match luns(&url, &IscsiOptions::default()) {
        Err(IscsiError::Library(why)) => return println!("skipped: {why}"),
        found => found.unwrap(),
    };
    assert!(found.contains(&1) && found.contains(&300), "{found:?}");
    assert_eq!(unit(&url.with_lun(300), &IscsiOptions::default()).unwrap().size, SIZE / 2);
    let one = connect(&url.to_string(), "noop", IscsiOptions::default()).unwrap();
    let large = connect(&url.with_lun(300).to_string(), "noop", IscsiOptions::default()).unwrap();
    one.write_at(&[1; 512], 0).unwrap();
    large.write_at(&[3; 512], 0).unwrap();
    let mut data = [0; 512];
    one.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [1; 512]);
    large.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [3; 512]);
}
