import { useEffect, useState } from 'preact/hooks'
import { watchInjected } from './injected.ts'
import { playWallet } from './play.ts'
import { watchStandard } from './standard.ts'
import type { Wallet } from './wallet.ts'

/**
 * Every wallet that is of use on these networks: the play wallet of a devnet, and those of the browser that announce
 * themselves. `isUsable` must stay the same function while its answers do.
 */
export function useWallets(networks: readonly string[], isUsable: (wallet: Wallet) => boolean): readonly Wallet[] {
  const [wallets, setWallets] = useState<readonly Wallet[]>([])
  const names = [...new Set(networks)].join(' ')
  useEffect(() => {
    setWallets([])
    const add = (wallet: Wallet) => {
      if (isUsable(wallet)) setWallets((before) => [...before.filter(({ id }) => id !== wallet.id), wallet])
    }
    for (const network of names.split(' ').filter(Boolean))
      void playWallet(network).then((wallet) => wallet && add(wallet))
    const stops = [watchInjected(add), watchStandard(add)]
    return () => stops.forEach((stop) => stop())
  }, [names, isUsable])
  return wallets
}
