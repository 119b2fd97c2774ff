// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtc: takes the time as Windows does.  Where Hyper-V's timer is offered it only
 * waits; else it asks the RTC after each millisecond.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <unistd.h>

int main(void)
{
	unsigned int eax, ebx, ecx, edx;
	char text[32];
	int rtc;

	__cpuid(0x40000000, eax, ebx, ecx, edx);
	/* "Micr"; access to the timer's registers. */
	if (ebx == 0x7263694d) {
		__cpuid(0x40000003, eax, ebx, ecx, edx);
		if (eax & 8)
			for (;;)
				pause();
	}
	rtc = open("/sys/class/rtc/rtc0/since_epoch", O_RDONLY);
	while (rtc >= 0 && pread(rtc, text, sizeof(text), 0) > 0)
		usleep(1000);
	return 1;
}
