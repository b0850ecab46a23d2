//! Errors of devices as clients see them.

use crate::client::attach;
use crate::{open, serve};
use platter_remote::nbd::wire::{command, error};
use rustix::io::Errno;

/// The numbers of the protocol, and what disks report as them. `error` fails the I/O at once, so that transient errors are
/// not tried again.
const NUMBERS: [(u32, &[Errno]); 6] = [
    (error::EPERM, &[Errno::ROFS]),
    (error::ENOSPC, &[Errno::NOSPC, Errno::FBIG, Errno::DQUOT]),
    (error::EINVAL, &[Errno::INVAL, Errno::OPNOTSUPP]),
    (error::ENOMEM, &[Errno::NOMEM]),
    (
        error::EIO,
        &[
            Errno::IO,
            Errno::NODATA,
            Errno::NOLINK,
            Errno::REMOTEIO,
            Errno::BADE,
            Errno::BADMSG,
            Errno::ILSEQ,
            Errno::TIMEDOUT,
            Errno::TIME,
            Errno::NODEV,
            Errno::NXIO,
            Errno::NOMEDIUM,
            Errno::STALE,
            Errno::BADF,
            Errno::CANCELED,
            Errno::ACCESS,
        ],
    ),
    // A disk whose transport is down, or that has no zone left: no server that shuts down, no read that is too long.
    (error::EIO, &[Errno::SHUTDOWN, Errno::OVERFLOW]),
];

#[test]
fn the_number_of_an_error_is_the_nearest_of_the_protocol() {
    for (number, errnos) in NUMBERS {
        for errno in errnos.iter().map(|errno| errno.raw_os_error()) {
            let fixture = serve(open(&format!("error(errno={errno}, ram(1M))")));
            for structured in [false, true] {
                let mut client = attach(&fixture.unix, "disk", structured);
                assert_eq!(client.call(command::READ, 0, 0, 512, b"").error, number, "errno {errno}");
                assert_eq!(client.call(command::WRITE, 0, 0, 512, &[1; 512]).error, number, "errno {errno}");
                assert_eq!(client.call(command::FLUSH, 0, 0, 0, b"").error, number, "errno {errno}");
                assert_eq!(client.call(command::TRIM, 0, 0, 4096, b"").error, number, "errno {errno}");
                client.disconnect();
            }
        }
    }
}

/// Linux refuses changes of a device that was set read-only with `EPERM`; what else it refuses so has no number of its own.
#[test]
fn what_is_not_permitted_is_read_only_for_changes_alone() {
    let fixture = serve(open("error(errno=1, ram(1M))"));
    for structured in [false, true] {
        let mut client = attach(&fixture.unix, "disk", structured);
        assert_eq!(client.call(command::READ, 0, 0, 512, b"").error, error::EIO);
        assert_eq!(client.call(command::FLUSH, 0, 0, 0, b"").error, error::EIO);
        assert_eq!(client.call(command::WRITE, 0, 0, 512, &[1; 512]).error, error::EPERM);
        assert_eq!(client.call(command::TRIM, 0, 0, 4096, b"").error, error::EPERM);
        client.disconnect();
    }
}
