//! The NBD client against a server that plays by a script: every shape of reply, garbage, and connections that end at
//! every byte.

mod early;
mod flood;
mod loss;
mod server;
mod several;
mod shapes;
mod unanswered;
