// SPDX-License-Identifier: GPL-2.0-only
//! What the machine and the agents say to each other.
//!
//! A frame is a little-endian `u32` length (of what follows), one kind byte and a payload:
//!
//! | kind | payload |
//! |---|---|
//! | `J` | one message, JSON |
//! | `D` | session `u32`, stream byte, raw bytes of that stream |
//! | `G` | guest `u32`, then the kind byte and payload of a frame to or from that guest |
//!
//! The host's agent unwraps `G` for the guest and wraps what the guest answers, so the machine
//! talks to a guest's agent exactly as it talks to the host's.

use crate::{
    clock_device::ClockDevice, disk_device::DiskDevice, mode::Mode, network::Card, size::Size,
};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::{
    io::{self, Read, Write},
    path::PathBuf,
};

/// A longer frame is a broken stream, not a message.
pub const MAX_FRAME: usize = 16 << 20;
/// How much of a stream goes into one frame.
pub const CHUNK: usize = 64 << 10;
/// Agents and machine must come from one build; the agent says this first.
pub const VERSION: u32 = 6;
/// The virtio-serial port on which the host's agent is reached.
pub const HOST_PORT: &str = "paratick.host";
/// A kernel parameter that becomes an environment variable of the first process: the serial line on
/// which the host's agent is reached, where there is no virtio.
pub const HOST_LINE: &str = "PARATICK_LINE";
/// The virtio-serial port on which a guest's agent is reached.
pub const GUEST_PORT: &str = "paratick.guest";
/// A kernel parameter that becomes an environment variable of the first process: the folder of the
/// shared file system that is to be the root.  Without it, the first root stays.
pub const ROOT: &str = "PARATICK_ROOT";
/// The same: the folder of the machine that holds a whole system, whose own first process is to
/// follow ours.
pub const SYSTEM: &str = "PARATICK_SYSTEM";
/// The same: the serial number of the disk that has the root, of a kernel that cannot share one.
pub const ROOT_DISK: &str = "PARATICK_ROOT_DISK";
/// The same: the address of the guest's network card.
pub const ADDRESS: &str = "PARATICK_ADDRESS";

/// A guest's number on its host, from 1.
pub type GuestId = u32;
/// One thing asked of an agent, such as a command to run; the machine chooses the number.
pub type SessionId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::FromRepr)]
#[repr(u8)]
pub enum Stream {
    Stdin,
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Message(Vec<u8>),
    Data { session: SessionId, stream: Stream, bytes: Vec<u8> },
    Guest { guest: GuestId, inner: Box<Frame> },
}

/// From the machine to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Request {
    /// Run a command.
    Exec(ExecRequest),
    /// No more input will come for this command.
    CloseStdin { session: SessionId },
    /// The terminal of this command has another size.
    Resize { session: SessionId, size: TerminalSize },
    /// What is in files, without blanks at its ends; the answer is a reading, with a null for each
    /// that cannot be read.  No program has to be loaded for that.
    ReadFiles { session: SessionId, files: Vec<String> },
    /// The answer is an empty reading, so much later on the agent's own clock.
    Wait { session: SessionId, ns: u64 },
    /// Take over the machine's root file system and its time of day; the answer is an empty
    /// reading.  Before, there is only what came with the kernel.
    Enter {
        session: SessionId,
        /// Since 1970.
        now_ns: u64,
        /// Files and folders of the machine that are to be seen even where a folder of the system's
        /// own hides them.
        show: Vec<PathBuf>,
    },
    /// Host only: start a guest under KVM.
    StartGuest { guest: GuestId, config: Box<GuestConfig>, tools: GuestTools },
    /// Host only: end a guest at once.
    StopGuest { guest: GuestId },
    /// Starts an instrument, or lets it begin anew; the answer is an empty reading.
    StartInstrument { session: SessionId, name: String },
    /// What it has read since its start.
    ReadInstrument { session: SessionId, name: String },
    /// Ends it, so that what it takes is no longer taken; the answer is an empty reading.
    StopInstrument { session: SessionId, name: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    Ready(Ready),
    Exited {
        session: SessionId,
        /// As a shell reports it: 128 + n for a command ended by signal n.
        code: i32,
        /// From start to end on the agent's own clock.
        duration_ns: u64,
    },
    /// What was asked for in this session did not happen.
    Failed {
        session: SessionId,
        error: String,
    },
    /// Of an instrument; each has its own type.  A null whose session had data before stands for
    /// that: JSON in parts, as a long recording does not fit a frame.
    Reading {
        session: SessionId,
        reading: serde_json::Value,
    },
    /// One chunk of input has reached the command: the next may be sent.
    StdinTaken {
        session: SessionId,
    },
    GuestStarted {
        guest: GuestId,
        /// The guest's QEMU.
        pid: u32,
        command_line: Vec<String>,
        /// The pCPU each vCPU is pinned to, in the order of vCPUs.
        pins: Vec<u32>,
    },
    GuestConsole {
        guest: GuestId,
        text: String,
    },
    /// The guest's QEMU ended, or never started.
    GuestEnded {
        guest: GuestId,
        why: String,
    },
}

/// What an agent says when it is up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub version: u32,
    /// As `uname -r` says.
    pub kernel: String,
    pub cpus: u32,
    pub command_line: String,
    /// What the kernel did not know of its command line, and gave to its first process; separated
    /// by blanks.  None of an older agent, whose version is found out first.
    #[serde(default)]
    pub unknown_parameters: String,
    /// Time since boot on the agent's own clock.
    pub uptime_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecRequest {
    pub session: SessionId,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// `/` where this does not exist.
    pub cwd: PathBuf,
    /// A terminal for input and output, of this size.
    pub terminal: Option<TerminalSize>,
    /// Input follows as data frames; otherwise it is empty.
    pub stdin: bool,
    /// Mark this window of exits around the command.
    pub window: Option<u32>,
}

/// The machine's programs that guests are run with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTools {
    pub qemu: PathBuf,
    /// Folders of firmware, for a QEMU that does not know its own.
    pub firmware: Vec<PathBuf>,
    /// The guest's first root file system.
    pub initramfs: PathBuf,
    /// What the guest's kernel is told because of what it is.
    pub parameters: Vec<String>,
    /// Whether its kernel is as a distribution built it.
    pub stock: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestConfig {
    pub kernel: PathBuf,
    pub vcpus: u32,
    /// Packages that these are divided among; else one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    pub memory: Size,
    pub mode: Mode,
    pub machine: MachineType,
    pub clock: ClockDevice,
    /// Further words for its QEMU's -cpu, such as `-tsc-deadline`.
    #[serde(default)]
    pub cpu: String,
    /// Further kernel parameters.
    pub append: Vec<String>,
    /// What is behind the guest's disk.
    pub disk: Option<Disk>,
    /// What the guest finds it as.
    #[serde(default, skip_serializing_if = "DiskDevice::is_default")]
    pub disk_device: DiskDevice,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// The pCPU of each vCPU; empty: chosen by the host.
    pub pins: Vec<u32>,
    /// No vCPU is pinned, nor anything else of its QEMU: the host's scheduler puts them where it
    /// likes.
    #[serde(default)]
    pub unpinned: bool,
    /// The folder of a whole system, which is its root instead of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<PathBuf>,
    /// A disk with its root, of a kernel that cannot share the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_disk: Option<PathBuf>,
    /// Further words for its QEMU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qemu: Vec<String>,
}

impl GuestConfig {
    pub fn new(kernel: impl Into<PathBuf>, vcpus: u32, memory: Size, mode: Mode) -> GuestConfig {
        GuestConfig {
            kernel: kernel.into(),
            vcpus,
            sockets: None,
            memory,
            mode,
            machine: MachineType::default(),
            clock: ClockDevice::default(),
            cpu: String::new(),
            append: Vec::new(),
            disk: None,
            disk_device: DiskDevice::default(),
            card: None,
            pins: Vec::new(),
            unpinned: false,
            system: None,
            root_disk: None,
            qemu: Vec::new(),
        }
    }

    /// Whether its root file system is another than the machine's.
    pub fn has_own_root(&self) -> bool {
        self.system.is_some() || self.root_disk.is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disk {
    /// A file or block device on the host.
    File(PathBuf),
    /// An empty file in the host's memory: no real disk, so no real time, is behind it.
    Memory(Size),
    /// Nothing but zeros, and a time that each request takes.
    Delayed { size: Size, ns: u64 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum MachineType {
    /// As most guests in the field: PCI Express, MSI-X.
    #[default]
    Q35,
    /// No PCI and little firmware: boots sooner, but its interrupts cost more exits.
    Microvm,
}

impl Frame {
    pub fn message<T: Serialize>(message: &T) -> Frame {
        Frame::Message(serde_json::to_vec(message).expect("wire messages are plain data"))
    }

    pub fn to_guest(self, guest: GuestId) -> Frame {
        Frame::Guest { guest, inner: Box::new(self) }
    }

    /// The whole frame, length first.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        self.put(&mut bytes);
        let length = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Message(json) => {
                out.push(b'J');
                out.extend_from_slice(json);
            }
            Frame::Data { session, stream, bytes } => {
                out.push(b'D');
                out.extend_from_slice(&session.to_le_bytes());
                out.push(*stream as u8);
                out.extend_from_slice(bytes);
            }
            Frame::Guest { guest, inner } => {
                out.push(b'G');
                out.extend_from_slice(&guest.to_le_bytes());
                inner.put(out);
            }
        }
    }

    /// `bytes` is what follows the length.
    pub fn decode(bytes: &[u8]) -> io::Result<Frame> {
        let (kind, payload) = bytes.split_first().ok_or_else(|| bad("an empty frame"))?;
        match kind {
            b'J' => Ok(Frame::Message(payload.to_vec())),
            b'D' => {
                let (session, rest) = split_number(payload)?;
                let (stream, bytes) = rest.split_first().ok_or_else(|| bad("no stream"))?;
                Ok(Frame::Data {
                    session,
                    stream: Stream::from_repr(*stream).ok_or_else(|| bad("unknown stream"))?,
                    bytes: bytes.to_vec(),
                })
            }
            b'G' => {
                let (guest, rest) = split_number(payload)?;
                if rest.first() == Some(&b'G') {
                    return Err(bad("a guest's frame inside a guest's frame"));
                }
                Ok(Frame::decode(rest)?.to_guest(guest))
            }
            kind => Err(bad(&format!("unknown frame kind {kind:#04x}"))),
        }
    }

    /// Reads one frame; `None` where the stream ends between two frames.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
        let mut length = [0; 4];
        if from.read(&mut length[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut length[1..])?;
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(bad(&format!("a frame of {length} bytes")));
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes)?;
        Frame::decode(&bytes).map(Some)
    }

    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.encode())
    }
}

/// The message in a `J` frame.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> io::Result<T> {
    serde_json::from_slice(json).map_err(|error| bad(&error.to_string()))
}

fn split_number(bytes: &[u8]) -> io::Result<(u32, &[u8])> {
    let (number, rest) =
        bytes.split_first_chunk::<4>().ok_or_else(|| bad("a frame that is too short"))?;
    Ok((u32::from_le_bytes(*number), rest))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("agent protocol: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
        let stream = prop_oneof![Just(Stream::Stdin), Just(Stream::Stdout), Just(Stream::Stderr)];
        prop_oneof![
            bytes().prop_map(Frame::Message),
            (any::<u32>(), stream, bytes()).prop_map(|(session, stream, bytes)| Frame::Data {
                session,
                stream,
                bytes
            }),
        ]
    }

    proptest! {
        #[test]
        fn frames_read_back_as_written(
            inner in plain(), guest in proptest::option::of(any::<u32>())
        ) {
            let frame = match guest {
                Some(guest) => inner.to_guest(guest),
                None => inner,
            };
            let bytes = frame.encode();
            prop_assert_eq!(Frame::read(&mut bytes.as_slice()).unwrap(), Some(frame));
        }

        #[test]
        fn noise_is_an_error_and_never_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..64)
        ) {
            let _ = Frame::decode(&bytes);
            let _ = Frame::read(&mut bytes.as_slice());
        }
    }

    #[test]
    fn a_stream_may_end_only_between_frames() {
        let bytes = Frame::Message(b"{}".to_vec()).encode();
        assert_eq!(Frame::read(&mut [].as_slice()).unwrap(), None);
        assert!(Frame::read(&mut &bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_frame_beyond_the_limit_is_refused_before_it_is_read() {
        let bytes = (MAX_FRAME as u32 + 1).to_le_bytes();
        assert!(Frame::read(&mut bytes.as_slice()).is_err());
    }
}
