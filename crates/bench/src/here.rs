// SPDX-License-Identifier: GPL-2.0-only
//! Instruments of this machine, in this process: one recording, or one after the other.

use anyhow::Result;
use paratick_instruments::Instrument;
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Rings of records are read so often.
const STEP: Duration = Duration::from_millis(100);

/// What looks at the VMs of this machine, and at this machine, which may be somebody's VM.
pub struct Here<H, G> {
    host: Option<H>,
    guest: Option<G>,
    was_read: bool,
}

/// Of the sides that look.
type Readings<H, G> = (Option<<H as Instrument>::Reading>, Option<<G as Instrument>::Reading>);

impl<H: Instrument, G: Instrument> Here<H, G> {
    pub fn of(host: Option<H>, guest: Option<G>) -> Here<H, G> {
        Here { host, guest, was_read: false }
    }

    pub fn has_guest(&self) -> bool {
        self.guest.is_some()
    }

    /// Until the time is over or `leave` says so.  What was recorded before is forgotten.
    pub fn record(&mut self, time: Duration, leave: &dyn Fn() -> bool) -> Result<Readings<H, G>> {
        if self.was_read {
            self.host = self.host.take().map(H::restart).transpose()?;
            self.guest = self.guest.take().map(G::restart).transpose()?;
        }
        self.was_read = true;
        let end = Instant::now() + time;
        while Instant::now() < end && !leave() {
            self.host.as_mut().map_or(Ok(()), H::drain)?;
            self.guest.as_mut().map_or(Ok(()), G::drain)?;
            sleep(end.saturating_duration_since(Instant::now()).min(STEP));
        }
        let guest = self.guest.as_mut().map(G::read).transpose()?;
        Ok((self.host.as_mut().map(H::read).transpose()?, guest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static STARTED: AtomicU32 = AtomicU32::new(0);

    /// Reads how often it was emptied.
    struct Counter(u32);

    impl Instrument for Counter {
        const NAME: &'static str = "counter";
        type Reading = u32;

        fn start() -> Result<Counter> {
            STARTED.fetch_add(1, Ordering::SeqCst);
            Ok(Counter(0))
        }

        fn restart(self) -> Result<Counter> {
            Ok(Counter(0))
        }

        fn drain(&mut self) -> Result<()> {
            self.0 += 1;
            Ok(())
        }

        fn read(&mut self) -> Result<u32> {
            Ok(self.0)
        }
    }

    #[test]
    fn the_next_recording_knows_nothing_of_the_last_and_nothing_starts_again() {
        let mut here = Here::<_, Counter>::of(Some(Counter::start().unwrap()), None);
        let read = here.record(STEP * 5, &|| false).unwrap();
        assert!(read.0.unwrap() >= 2 && read.1.is_none());
        assert_eq!(here.record(STEP * 5, &|| true).unwrap(), (Some(0), None));
        assert_eq!(STARTED.load(Ordering::SeqCst), 1);
    }
}
