//! An image that holds something.

/// An image of this size with a master boot record that has a partition of Linux.
pub(crate) fn partitioned(size: usize) -> Vec<u8> {
    let mut image = vec![0; size];
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image[450] = 0x83;
    image[454..458].copy_from_slice(&2u32.to_le_bytes());
    image[458..462].copy_from_slice(&100u32.to_le_bytes());
    image
}
