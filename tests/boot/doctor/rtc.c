// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtc: takes the time as Windows does.  Where Hyper-V's timer is offered it only
 * waits; else it lets the RTC tick 1024 times a second, and reads the register
 * that says so after each millisecond.
 */
#include <cpuid.h>
#include <sys/io.h>
#include <unistd.h>

static void write_register(int which, int value)
{
	outb(which, 0x70);
	outb(value, 0x71);
}

static int read_register(int which)
{
	outb(which, 0x70);
	return inb(0x71);
}

int main(void)
{
	unsigned int eax, ebx, ecx, edx;

	__cpuid(0x40000000, eax, ebx, ecx, edx);
	/* "Micr"; access to the timer's registers. */
	if (ebx == 0x7263694d) {
		__cpuid(0x40000003, eax, ebx, ecx, edx);
		if (eax & 8)
			for (;;)
				pause();
	}
	if (iopl(3))
		return 1;
	write_register(0xa, 0x26);
	write_register(0xb, read_register(0xb) | 0x40);
	for (;;) {
		usleep(1000);
		read_register(0xc);
	}
}
