// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtc: ends interrupts of the RTC's as Windows does.  Where Hyper-V's timer is
 * offered it only waits; else it reads the RTC's flags after each millisecond.
 */
#include <cpuid.h>
#include <sys/io.h>
#include <unistd.h>

int main(void)
{
	unsigned int eax, ebx, ecx, edx;
	int i;

	__cpuid(0x40000000, eax, ebx, ecx, edx);
	/* "Micr"; access to the timer's registers. */
	if (ebx == 0x7263694d) {
		__cpuid(0x40000003, eax, ebx, ecx, edx);
		if (eax & 8)
			for (;;)
				pause();
	}
	if (ioperm(0x70, 2, 1))
		return 1;
	for (;;) {
		for (i = 0; i < 10; i++) {
			outb(0xc, 0x70);
			inb(0x71);
		}
		usleep(1000);
	}
}
