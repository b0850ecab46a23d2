//! The client that stands for the open files of a device.

use crate::rig::{Mounted, SIZE, errno};
use platter_disk::device::Device;
use platter_serve::clients::Clients;
use platter_serve::export::Options;
use platter_serve::served::Served;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The kernel reports that a file is closed some time afterwards.
pub(crate) fn await_none(clients: &Clients) {
    while !clients.list().is_empty() {
        std::thread::yield_now();
    }
}

fn two() -> Option<(Mounted, Arc<Clients>)> {
    let devices = ["a", "b"].map(|name| Served::new(name, Device::ram(SIZE).unwrap()).unwrap());
    let mounted = Mounted::new(devices.into(), &Options::default())?;
    let clients = Arc::clone(mounted.server.as_ref().unwrap().clients());
    Some((mounted, clients))
}

fn open(mounted: &Mounted, name: &str) -> File {
    OpenOptions::new().read(true).write(true).open(mounted.directory.path().join(name)).unwrap()
}

#[test]
fn a_device_has_a_client_while_files_are_open() {
    let Some((mounted, clients)) = two() else { return };
    assert!(clients.list().is_empty());
    let (first, second) = (open(&mounted, "a"), open(&mounted, "a"));
    first.write_all_at(&[1; 4096], 0).unwrap();
    let list = clients.list();
    assert_eq!((list.len(), list[0].device.as_str(), list[0].export), (1, "a", "fuse"));
    drop(list);
    drop(first);
    second.write_all_at(&[2; 4096], 0).unwrap();
    assert_eq!(clients.list().len(), 1);
    drop(second);
    await_none(&clients);
    open(&mounted, "a").write_all_at(&[3; 100], 0).unwrap();
    await_none(&clients);
}

#[test]
fn a_client_that_is_disconnected_loses_its_files_and_no_other_does() {
    let Some((mounted, clients)) = two() else { return };
    let (a, b) = (open(&mounted, "a"), open(&mounted, "b"));
    a.write_all_at(&[1; 4096], 0).unwrap();
    b.write_all_at(&[1; 4096], 0).unwrap();
    let of_a = clients.list().into_iter().find(|client| client.device == "a").unwrap();
    of_a.disconnect();
    // Its number is gone when no thread has a channel for it any more.
    while clients.find(of_a.id).is_some() {
        std::thread::yield_now();
    }
    assert_eq!(errno(a.read_at(&mut [0; 4096], 0)), Errno::NODEV);
    assert_eq!(errno(a.write_at(&[0; 4096], 0)), Errno::NODEV);
    assert_eq!(errno(a.write_at(&[0; 100], 7)), Errno::NODEV);
    assert_eq!(errno(a.sync_all()), Errno::NODEV);
    b.read_exact_at(&mut [0; 4096], 0).unwrap();
    let again = open(&mounted, "a");
    let mut found = [0; 4096];
    again.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, [1; 4096]);
    // A file of the old client is closed; those of the new one stay.
    drop(a);
    again.read_exact_at(&mut found, 4096).unwrap();
}

#[cfg(feature = "daemon")]
mod removal {
    use super::*;
    use crate::rig::PATIENCE;
    use platter_serve::config::{self, DeviceConfig};
    use platter_serve::daemon::Daemon;
    use std::fs;
    use std::io::ErrorKind;

    /// A device is a file of the system, which is locked while it is open.
    #[test]
    fn a_device_can_be_removed_while_it_is_mounted_and_is_closed_then() {
        let directory = tempfile::tempdir().unwrap();
        let [image, at] = ["image", "mounted"].map(|name| directory.path().join(name));
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        fs::create_dir(&at).unwrap();
        let text = format!(
            "[server]\nstop_timeout = '60s'\n[devices.kept]\nspec = 'ram(1M)'\n[devices.disk]\nspec = '{}'\n\
             [exports.files]\nkind = 'fuse'\naddress = '{}'\n",
            image.display(),
            at.display()
        );
        let daemon = match Daemon::start(config::parse(&text).unwrap(), None, |_| {}) {
            Ok(daemon) => daemon,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(at.join(name)).unwrap();
        let add = || daemon.add_device(&DeviceConfig::new("disk", image.to_str().unwrap()));
        let (kept, file) = (open("kept"), open("disk"));
        file.write_all_at(&[1; 4096], 0).unwrap();
        kept.write_all_at(&[1; 4096], 0).unwrap();
        let in_use = daemon.remove_device("disk", false).unwrap_err().to_string();
        assert!(in_use.contains("in use"), "{in_use}");
        daemon.remove_device("disk", true).unwrap();
        assert_eq!(errno(file.read_at(&mut [0; 512], 0)), Errno::NODEV);
        assert_eq!(fs::metadata(at.join("disk")).unwrap_err().kind(), ErrorKind::NotFound);
        add().unwrap();
        let again = open("disk");
        let mut found = [0; 4096];
        again.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, [1; 4096]);
        kept.read_exact_at(&mut found, 0).unwrap();
        drop((again, file, kept));
        await_none(daemon.clients());
        daemon.remove_device("disk", false).unwrap();
        add().unwrap();
        daemon.stop(PATIENCE).unwrap();
    }
}
