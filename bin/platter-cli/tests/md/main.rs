//! Arrays of Linux' md: reading, examining and checking them, on members that mdadm and the kernel made.

mod broken;
mod command;
mod created;
mod images;
mod logs;
mod refused;
mod whole;
