import { explore } from './explore.ts'
import { seedOf } from './chance.ts'
import { AS_BUILT, stage } from './world.ts'
import { plainCopy } from './copy.ts'
globalThis.structuredClone = plainCopy as typeof structuredClone
const runs=Number(process.argv[2]??1000), base=Number(process.argv[3]??1)
setImmediate(()=>{
 const on=stage(AS_BUILT)
 const t=performance.now(); const cpu=process.cpuUsage(); const kinds=new Map(); let n=0
 if (process.argv[4]) { const r=explore(on, Number(process.argv[4]), {isTraced:true}); console.log(r.lines.join('\n')); return }
 for(let i=0;i<runs;i++){ const r=explore(on, seedOf(base,i)); n++; if(r.violation){ const k=r.violation.law; const e=kinds.get(k)??[]; e.push([r.seed,r.violation.text,r.steps]); kinds.set(k,e) } }
 const c=process.cpuUsage(cpu); console.log('cpu', (n/((c.user+c.system)/1e6)).toFixed(0),'/s'); console.log(n,'runs',(n/((performance.now()-t)/1000)).toFixed(0),'/s')
 for(const [k,e] of kinds) console.log(k,e.length,e.slice(0,3))
})
