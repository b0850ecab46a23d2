//! The options of disks behind a network.

/// Makes the options of a disk: those of its connections, and behind them its own.
macro_rules! options {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident, $with:ident: $of:ty = $default:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            /// Whether writes are allowed.
            pub write: bool,
            /// Most connections at once, at least 1.
            pub connections: u32,
            /// Most requests of a connection at once.
            pub depth: u32,
            /// Time for connecting and negotiating.
            pub connect_timeout: platter_block::time::Span,
            /// Time after which a connection is broken whose peer does not acknowledge data, or does not answer an abort.
            pub peer_timeout: platter_block::time::Span,
            /// How long I/O is held while there is no connection; zero: it fails at once.
            pub reconnect: platter_block::time::Span,
            $($(#[$doc])* pub $field: $of,)*
        }

        platter_block::setters! {
            $name {
                write, with_write: bool;
                connections, with_connections: u32;
                depth, with_depth: u32;
                connect_timeout, with_connect_timeout: platter_block::time::Span;
                peer_timeout, with_peer_timeout: platter_block::time::Span;
                reconnect, with_reconnect: platter_block::time::Span;
                $($field, $with: $of;)*
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name {
                    write: false,
                    connections: 1,
                    depth: 128,
                    connect_timeout: platter_block::time::Span::from_secs(10),
                    peer_timeout: platter_block::time::Span::from_secs(30),
                    reconnect: platter_block::time::Span::from_secs(60),
                    $($field: $default,)*
                }
            }
        }

        impl $name {
            /// Those of the connections.
            pub(super) fn bounds(&self) -> crate::reconnect::Bounds {
                crate::reconnect::Bounds {
                    connections: self.connections,
                    depth: self.depth,
                    connect_timeout: self.connect_timeout,
                    peer_timeout: self.peer_timeout,
                    reconnect: self.reconnect,
                }
            }
        }
    };
}

pub(crate) use options;
