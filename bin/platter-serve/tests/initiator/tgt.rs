//! The target tgt, as a program of others that the initiator must get along with.

use platter_remote::iscsi::client::{IscsiOptions, Portal, targets};
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const NAME: &str = "iqn.2026-11.localhost.tgt:disk";

/// The variable by which tgt is told where its control socket is; it adds the number of the control port.
const SOCKET: &str = "TGT_IPC_SOCKET";

/// A tgtd with one target, whose logical unit 1 is a file.
pub(crate) struct Tgt {
    child: Child,
    pub(crate) address: String,
    control: String,
    folder: TempDir,
}

impl Tgt {
    /// `None`, after saying so, if it is not installed or may not run here. `accounts` are names, secrets, and whether the target
    /// shows who it is by it.
    pub(crate) fn start(size: u64, accounts: &[(&str, &str, bool)]) -> Option<Tgt> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        File::create(folder.path().join("disk.img")).unwrap().set_len(size).unwrap();
        // The program takes no port that the system chooses, so it gets one that was free just now.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Its socket is in the folder, so that the number need not be unique.
        let (address, control) = (format!("127.0.0.1:{port}"), "1".to_owned());
        let mut command = Command::new("tgtd");
        command.args(["-f", "-C", &control, "--iscsi", &format!("portal={address}")]);
        command.env(SOCKET, folder.path().join("control"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else {
            println!("skipped: tgtd is not installed");
            return None;
        };
        let mut tgt = Tgt { child, address, control, folder };
        if !tgt.is_ready() {
            println!("skipped: tgtd does not run here (it needs to be run by root)");
            return None;
        }
        let image = tgt.image().display().to_string();
        tgt.admin(&["--op", "new", "--mode", "target", "--tid", "1", "-T", NAME]);
        tgt.admin(&["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", &image]);
        tgt.admin(&["--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"]);
        for &(user, password, outgoing) in accounts {
            tgt.admin(&["--op", "new", "--mode", "account", "--user", user, "--password", password]);
            let bind = ["--op", "bind", "--mode", "account", "--tid", "1", "--user", user];
            tgt.admin(&[&bind[..], if outgoing { &["--outgoing"] } else { &[] }].concat());
        }
        Some(tgt)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("disk.img")
    }

    /// Adds a logical unit, half as large.
    pub(crate) fn add_unit(&self, lun: u16) {
        let image = self.folder.path().join("more.img");
        let size = std::fs::metadata(self.image()).unwrap().len();
        File::create(&image).unwrap().set_len(size / 2).unwrap();
        let (lun, image) = (lun.to_string(), image.display().to_string());
        self.admin(&["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", &lun, "-b", &image]);
    }

    /// Target and logical unit, as a URL has them.
    pub(crate) fn path(&self) -> String {
        format!("{NAME}/1")
    }

    /// Fills the disk with zeroes.
    pub(crate) fn erase(&self) {
        let file = File::options().write(true).open(self.image()).unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(0).unwrap();
        file.set_len(size).unwrap();
    }

    fn tgtadm(&self) -> Command {
        let mut command = Command::new("tgtadm");
        command.args(["-C", &self.control, "--lld", "iscsi"]);
        command.env(SOCKET, self.folder.path().join("control"));
        command
    }

    fn admin(&self, arguments: &[&str]) {
        let output = self.tgtadm().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Whether it has come up.
    fn is_ready(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let mut show = self.tgtadm();
            show.args(["--op", "show", "--mode", "system"]);
            let shown = show.stdout(Stdio::null()).stderr(Stdio::null()).status();
            if shown.is_ok_and(|status| status.success()) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn targets_of_tgt_are_found() {
    let Some(tgt) = Tgt::start(1 << 20, &[]) else { return };
    let portal = Portal::parse(&tgt.address).unwrap();
    let Ok(found) = targets(&portal, None, &IscsiOptions::default()) else { return };
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), &found[0].portals), (NAME, &vec![format!("{},1", tgt.address)]));
}
