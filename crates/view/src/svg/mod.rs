// SPDX-License-Identifier: GPL-2.0-only
//! Small charts as SVG.  Colours are classes of the page's style, so that they follow its theme.

pub mod bars;
pub mod canvas;
pub mod curve;
pub mod forest;
pub mod lanes;
pub mod lines;
mod marks;
pub mod rates;
mod scale;
